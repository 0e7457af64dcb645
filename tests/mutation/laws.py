"""Mistakes against laws of the method that the operators do not draw.

`laws.txt` holds them, separated by empty lines:

  prompts are trained on
    in agentrl.loss.ppo:weight_of
    by tests/loss/losses_test.py
    - jnp.where(x.batch.rows.sampled, x.credit.weight, 0)
    + x.credit.weight

`by` names tests beside the mirror of the module. What stands after `-` occurs
once in the function, so that a law survives whatever moves around it.
"""

import ast
import functools
import pathlib
from typing import NamedTuple

from tests.mutation.edits import Edit

FILE = pathlib.Path(__file__).with_name('laws.txt')
_DEFINED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Law(NamedTuple):
  """A mistake in words and as an edit of one function."""

  reason: str
  module: str  # dotted
  function: str  # 'f', 'Class.method', 'outer.inner', or a constant's name
  tests: tuple[str, ...]
  old: str
  new: str

  @property
  def file(self) -> str:
    return f'{self.module.replace(".", "/")}.py'


def laws(text: str) -> list[Law]:
  return [_law(part) for part in text.strip().split('\n\n')]


@functools.cache
def listed() -> tuple[Law, ...]:
  return tuple(laws(FILE.read_text(encoding='utf-8')))


def tests(file: str) -> list[str]:
  """Returns the tests that laws of a file name."""
  return [test for law in listed() if law.file == file for test in law.tests]


def edit(text: str, law: Law) -> Edit:
  """Returns the law's mistake as an edit of its module's text.

  Raises: ValueError if the function or the old text is not there once.
  """
  node: ast.AST = ast.parse(text)
  for name in law.function.split('.'):
    node = _inside(node, name, law)
  lines = text.splitlines(keepends=True)
  decorators = node.decorator_list if isinstance(node, _DEFINED) else []
  first = min(x.lineno for x in (node, *decorators)) - 1
  part = ''.join(lines[first : node.end_lineno])
  if part.count(law.old) != 1:
    raise ValueError(
      f'{law.module}:{law.function}: {law.old!r} must occur once, got'
      f' {part.count(law.old)}'
    )
  before = ''.join(lines[:first]) + part[: part.index(law.old)]
  start = len(before.encode())
  end = start + len(law.old.encode())
  return Edit('law', before.count('\n') + 1, start, end, law.new)


def _law(text: str) -> Law:
  reason, *lines = text.splitlines()
  found: dict[str, list[str]] = {key: [] for key in ('in', 'by', '-', '+')}
  for line in lines:
    key, value = line.strip().split(' ', 1)
    found[key].append(value)
  (place,), (old,), (new,) = found['in'], found['-'], found['+']
  module, function = place.split(':')
  return Law(reason, module, function, tuple(found['by']), old, new)


def _inside(node: ast.AST, name: str, law: Law) -> ast.AST:
  """Returns what defines the name, nearest to the surface first."""
  for x in ast.walk(node):
    if x is not node and name in _names(x):
      return x
  raise ValueError(f'{law.module}:{law.function}: {name!r} is not defined')


def _names(x: ast.AST) -> list[str]:
  if isinstance(x, _DEFINED):
    return [x.name]
  targets = x.targets if isinstance(x, ast.Assign) else []
  return [t.id for t in targets if isinstance(t, ast.Name)]
