"""Calls as a Python list: Llama 3.2 and later.

An argument whose name is not a Python keyword argument (from, class, a b) goes
into a dictionary after the others: [f(x=1, **{'from': 2})].
"""

import ast
import keyword
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from agentrl.text import safe_ast, surrogates
from agentrl.text.tool_calls.base import (
  Call,
  Described,
  Format,
  Malformed,
  Place,
  Range,
  answer_json,
  faithful,
  foreign,
  locate_spoken,
  properties,
  quote,
  schemas,
)

# Of a function; Python's own, in ASCII.
_NAME = re.compile(r'[A-Za-z_]\w*(\.[A-Za-z_]\w*)*', re.ASCII)
_LINE_END = re.compile(r'\r\n|\r|\n')  # as Python counts lines
_CALLED = re.compile(r'\[\s*[A-Za-z_][\w.]*\s*\(')


def _callable(name: str) -> str:
  """Checks that the name of a tool is valid for a Python function.

  Raises:
    ValueError: it is not.
  """
  parts = name.split('.')
  if not _NAME.fullmatch(name) or any(map(keyword.iskeyword, parts)):
    raise ValueError(
      f'tool {name!r} must have the name of a Python function in the format'
      " 'llama_pythonic'; rename it, or use another format"
    )
  return name


def _is_keyword_argument(name: str) -> bool:
  """Returns whether Python accepts the name as a keyword argument."""
  plain = name.isidentifier() and not keyword.iskeyword(name)
  return plain and unicodedata.normalize('NFKC', name) == name


def _locate_pythonic(text: str, tools: Sequence[Described]) -> list[Place]:
  """Finds calls in a message that is one list of calls."""
  for tool in tools:
    _callable(tool.name)
  return locate_spoken(text, _read_list)


def _read_list(text: str) -> list[Place]:
  """Reads a list of calls; a `</think>` anywhere in it hides all of them.

  The opening bracket belongs to the first call, the closing one to the last;
  separators belong to no call.
  """
  whole = text.removeprefix('<|python_start|>')
  whole = whole.removesuffix('<|python_end|>').strip()
  if not _CALLED.match(whole):
    return []
  problem = 'The message must be a list of calls only'
  try:
    tree = safe_ast.tree(whole)
  except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
    why = error.msg if isinstance(error, SyntaxError) else 'too deeply nested'
    tree, problem = None, f'The list of calls cannot be read ({why})'
  if isinstance(tree, ast.List):
    return [
      Place(_read_pythonic(whole, node), *ranges)
      for node, ranges in zip(
        tree.elts, _ranges(text, whole, tree), strict=True
      )
    ]
  sentence = (
    f'{problem}: {quote(whole)}\n'
    "Write nothing but [name(argument='value', ...), ...]."
  )
  return [Place(Malformed(sentence), (0, len(text)), (0, -1))]


def _ranges(
  text: str, whole: str, tree: ast.List
) -> Iterator[tuple[Range, Range, Range]]:
  """Yields the ranges of each element's `Place`.

  Args:
    whole: source of the tree, a substring of the text.
  """
  first, before = tree.elts[0], text.index(whole)
  lines = [before, *(before + x.end() for x in _LINE_END.finditer(whole))]

  def index(line: int, column: int) -> int:
    """Converts a column in UTF-8 bytes to a character index."""
    start = lines[line - 1]
    return start + len(text[start:].encode()[:column].decode())

  def start(node) -> int:
    return index(node.lineno, node.col_offset)

  def end(node) -> int:
    return index(node.end_lineno, node.end_col_offset)

  for node in tree.elts:
    begins = 0 if node is first else start(node)
    ends = len(text) if node is tree.elts[-1] else end(node)
    named = node.keywords if isinstance(node, ast.Call) else []
    argument = (start(named[0]), end(named[-1])) if named else (0, 0)
    yield (begins, ends), (0, len(text)), argument


_DOTTED = re.compile(r'[^\W\d]\w*(\.[^\W\d]\w*)*')


def _read_pythonic(text: str, node: ast.expr) -> Call | Malformed:
  quoted = quote(ast.get_source_segment(text, node) or '')
  name = ast.unparse(node.func) if isinstance(node, ast.Call) else ''
  if not (isinstance(node, ast.Call) and _DOTTED.fullmatch(name)):
    return Malformed(f"Not a call: {quoted}\nWrite name(argument='value').")
  spread = (k.value for k in node.keywords if k.arg is None)
  if node.args or not all(isinstance(x, ast.Dict) for x in spread):
    return Malformed(
      f"Every argument must be named: {quoted}\nWrite name(argument='value')."
    )
  try:
    pairs = [pair for k in node.keywords for pair in _arguments(k)]
    args = dict(pairs)
    if any(True for _ in foreign(args)):
      raise ValueError
  except (ValueError, TypeError, RecursionError, MemoryError):
    return Malformed(
      'Arguments must be plain values (strings, numbers, True, False, None,'
      f' lists, dictionaries with strings as keys): {quoted}'
    )
  if len(args) < len(pairs):
    return Malformed(f'An argument is given twice: {quoted}')
  return Call(name, surrogates.replaced_in(args))


def _arguments(node: ast.keyword) -> list[tuple[Any, Any]]:
  """Lists the arguments of name=value or **{'name': value}.

  Raises:
    ValueError, TypeError, RecursionError, MemoryError: it is not a constant.
  """
  value = ast.literal_eval(node.value)
  return list(value.items()) if node.arg is None else [(node.arg, value)]


def _write_pythonic(calls: Sequence[Call]) -> str:
  text = f'[{", ".join(map(_write_call, calls))}]'
  return text.replace('</think>', '<\\x2fthink>')


def _write_call(call: Call) -> str:
  plain = {k: v for k, v in call.args.items() if _is_keyword_argument(k)}
  rest = {k: v for k, v in call.args.items() if k not in plain}
  args = [f'{k}={v!r}' for k, v in plain.items()]
  args += [f'**{rest!r}'] if rest else []
  return f'{_callable(call.name)}({", ".join(args)})'


def _teach_pythonic(tools: Sequence[Described]) -> str:
  for tool in tools:
    _callable(tool.name)
  names = {x for tool in tools for x in properties(tool)}
  odd = sorted(x for x in names if not _is_keyword_argument(x))
  how = f' Write {", ".join(odd)} as **{{{odd[0]!r}: ...}}.' if odd else ''
  return (
    'These functions can be called; each line is one, with the schema of its'
    f' arguments:\n{schemas(tools)}\n'
    'To call some, reply with nothing but a list such as'
    " [name(argument='value', number=1), ...]; every argument is named." + how
  )


PYTHONIC = Format(
  _locate_pythonic,
  faithful('llama_pythonic', _write_pythonic, _locate_pythonic),
  answer_json,
  _teach_pythonic,
  'ipython',
)
