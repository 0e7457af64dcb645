"""Expressions that an agent wrote, as Python reads them; nothing is run."""

import ast
import warnings

_SAID = '<said by an agent>'
# '3and 4' is legal and a bad idea: not for the user of this library to hear of.
warnings.filterwarnings('ignore', category=SyntaxWarning, module=_SAID)


def tree(text: str) -> ast.expr:
  """What an expression is made of.

  Raises:
    SyntaxError, ValueError, MemoryError, RecursionError: it is none.
  """
  return ast.parse(text, filename=_SAID, mode='eval').body
