"""Files and functions stay short enough to be read at once."""

import ast
import pathlib

ROOTS = 'agentrl', 'configs', 'experiments', 'examples', 'docs/generate'
FILE, FUNCTION = 500, 80  # lines
LONGER = {
  'configs/base.py',  # the table of fields
  'agentrl/run/runner.py:open_run',
}


def _too_long(text: str, name: str):
  """Names of the file and of functions that have too many lines."""
  if len(text.splitlines()) > FILE:
    yield name
  for node in ast.walk(ast.parse(text)):
    function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    if function and node.end_lineno - node.lineno >= FUNCTION:
      yield f'{name}:{node.name}'


def test_nothing_is_longer_than_the_law():
  longer = {
    x
    for root in ROOTS
    for path in sorted(pathlib.Path(root).rglob('*.py'))
    for x in _too_long(path.read_text(encoding='utf-8'), str(path))
  }
  assert longer <= LONGER


def test_what_is_too_long_is_found():
  long = 'def f():\n' + '  pass\n' * FUNCTION
  assert list(_too_long(long, 'a')) == ['a:f']
  assert list(_too_long('x = 1\n' * (FILE + 1), 'a')) == ['a']
  assert not list(_too_long('def f():\n' + '  pass\n' * (FUNCTION - 1), 'a'))
