"""Parses expressions of an agent as Python; nothing is run."""

import ast
import threading
import warnings

_ONE = threading.Lock()  # filters of warnings are the whole program's


def tree(text: str) -> ast.expr:
  """Parses an expression.

  Raises:
    SyntaxError, ValueError, MemoryError, RecursionError: it is none.
  """
  # '3and 4' is legal and a bad idea: not for the user of this library to hear.
  with _ONE, warnings.catch_warnings():
    warnings.simplefilter('ignore', SyntaxWarning)
    return ast.parse(text, mode='eval').body
