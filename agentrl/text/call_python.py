"""Calls as a list in Python: Llama 3.2 and later."""

import ast
import re
from collections.abc import Sequence

from agentrl.text import expression
from agentrl.text.call_base import (
  Call,
  Described,
  Format,
  Malformed,
  Read,
  answer_json,
  quote,
  schemas,
  spoken,
)

_CALLED = re.compile(r'\[\s*[A-Za-z_][\w.]*\s*\(')


def _parse_pythonic(text: str, tools: Sequence[Described]) -> Read:
  """The whole message is a list of calls, or none of it is."""
  del tools
  text = spoken(text).strip().removeprefix('<|python_start|>')
  text = text.removesuffix('<|python_end|>').strip()
  if not _CALLED.match(text):
    return []
  try:
    tree = expression.tree(text)
  except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
    why = error.msg if isinstance(error, SyntaxError) else 'too deeply nested'
    return [Malformed(
      f'The list of calls cannot be read ({why}): {quote(text)}\n'
      "Write nothing but [name(argument='value', ...), ...]."
    )]  # fmt: skip
  if not isinstance(tree, ast.List):
    return [Malformed(
      f'This is more than a list of calls: {quote(text)}\n'
      "Write nothing but [name(argument='value', ...), ...]."
    )]  # fmt: skip
  return [_read_pythonic(text, node) for node in tree.elts]


def _read_pythonic(text: str, node: ast.expr) -> Call | Malformed:
  said = quote(ast.get_source_segment(text, node) or '')
  name = ast.unparse(node.func) if isinstance(node, ast.Call) else ''
  if not re.fullmatch(r'\w+(\.\w+)*', name):
    return Malformed(f"This is no call: {said}\nWrite name(argument='value').")
  if node.args or any(k.arg is None for k in node.keywords):
    return Malformed(
      f"Every argument must be named: {said}\nWrite name(argument='value')."
    )
  try:
    return Call(name, {k.arg: ast.literal_eval(k.value) for k in node.keywords})
  except (ValueError, TypeError, RecursionError, MemoryError):
    return Malformed(
      'Arguments must be plain values (strings, numbers, True, False, None,'
      f' lists, dictionaries): {said}'
    )


def _write_pythonic(calls: Sequence[Call]) -> str:
  written = (
    f'{call.name}({", ".join(f"{k}={v!r}" for k, v in call.args.items())})'
    for call in calls
  )
  return f'[{", ".join(written)}]'.replace('</think>', '<\\x2fthink>')


def _teach_pythonic(tools: Sequence[Described]) -> str:
  return (
    'These functions can be called; each line is one, with the schema of its'
    f' arguments:\n{schemas(tools)}\n'
    'To call some, reply with nothing but a list such as'
    " [name(argument='value', number=1), ...]; every argument is named."
  )


PYTHONIC = Format(
  _parse_pythonic, _write_pythonic, answer_json, _teach_pythonic, 'ipython'
)
