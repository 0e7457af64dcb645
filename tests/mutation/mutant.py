"""Mutants: one-line mistakes as data, and the text of a module that has one.

A mutant names a module, a function and two pieces of text, never a file or a
line, so that it survives what moves around it.
"""

import ast
import difflib
import functools
import pathlib
import textwrap
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parent.parent.parent
_DEFINED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Mutant(NamedTuple):
  """A mistake somebody could make."""

  module: str  # dotted
  function: str  # 'f', 'Class.method', 'outer.inner', or a constant's name
  old: str  # stands exactly once inside of it
  new: str  # stands there instead
  tests: str  # files or node ids that should notice, separated by spaces
  reason: str  # what goes wrong

  @property
  def name(self) -> str:
    return f'{self.module}.{self.function}'


def path(m: Mutant) -> pathlib.Path:
  """The file of the module, below the root; nothing is imported."""
  place = pathlib.Path(*m.module.split('.'))
  for file in (place.with_suffix('.py'), place / '__init__.py'):
    if (ROOT / file).exists():
      return file
  raise ValueError(f'{m.name}: there is no module {m.module}')


def planted(text: str, m: Mutant) -> str:
  """The module's text with the mistake in it.

  Raises: ValueError if it does not apply, or changes nothing.
  """
  node = _parsed(text)
  for name in m.function.split('.'):
    node = _inside(node, name, m)
  lines = text.splitlines(keepends=True)
  first = min([node.lineno, *(x.lineno for x in _decorators(node))]) - 1
  part = ''.join(lines[first : node.end_lineno])
  if part.count(m.old) != 1:
    raise ValueError(
      f'{m.name}: {m.old!r} stands there {part.count(m.old)} times, not once'
    )
  other = part.replace(m.old, m.new)
  try:
    new = ast.dump(ast.parse(textwrap.dedent(other)))
  except SyntaxError as error:
    raise ValueError(f'{m.name}: {m.new!r} is no Python: {error}') from error
  if new == ast.dump(ast.parse(textwrap.dedent(part))):
    raise ValueError(f'{m.name}: {m.new!r} changes nothing')
  return ''.join([*lines[:first], other, *lines[node.end_lineno :]])


def patch(file: str | pathlib.Path, old: str, new: str) -> str:
  """Lines that differ, with one line around them."""
  lines = difflib.unified_diff(
    old.splitlines(keepends=True),
    new.splitlines(keepends=True),
    str(file),
    str(file),
    n=1,
  )
  return ''.join(lines)


@functools.lru_cache(maxsize=8)
def _parsed(text: str) -> ast.Module:
  return ast.parse(text)


def _inside(node: ast.AST, name: str, m: Mutant) -> ast.stmt:
  """What defines the name, nearest to the surface first."""
  for x in ast.walk(node):
    if x is not node and name in _names(x):
      return x
  raise ValueError(f'{m.name}: {m.module} defines no {name!r} there')


def _names(x: ast.AST) -> list[str]:
  if isinstance(x, _DEFINED):
    return [x.name]
  targets = []
  if isinstance(x, ast.Assign):
    targets = x.targets
  elif isinstance(x, ast.AnnAssign):
    targets = [x.target]
  return [t.id for t in targets if isinstance(t, ast.Name)]


def _decorators(x: ast.stmt) -> list[ast.expr]:
  return x.decorator_list if isinstance(x, _DEFINED) else []
