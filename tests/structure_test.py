"""The shape of the tree: few entries in front, and no circle of imports."""

import ast
import graphlib
import pathlib

ROOT = pathlib.Path(__file__).parent.parent
MOST = 45  # entries of agentrl
LINKS = 'configs', 'experiments'  # to folders of the root


def modules() -> dict[str, pathlib.Path]:
  """Returns the files of agentrl by dotted name."""
  found = {}
  for path in sorted((ROOT / 'agentrl').rglob('*.py')):
    parts = path.relative_to(ROOT).with_suffix('').parts
    if parts[1] not in LINKS:
      found['.'.join(parts).removesuffix('.__init__')] = path
  return found


def imported(tree: ast.Module) -> set[str]:
  """Returns what a module imports anywhere, `from a import b` as a.b.

  Imports within functions and for types are among them: they hide a circle.
  """
  out = set()
  for node in ast.walk(tree):
    if isinstance(node, ast.Import):
      out |= {x.name for x in node.names}
    elif isinstance(node, ast.ImportFrom):
      out |= {f'{node.module}.{x.name}' for x in node.names}
  return out


def graph(paths: dict[str, pathlib.Path]) -> dict[str, set[str]]:
  """Returns the modules of agentrl that each of them imports."""
  out = {}
  for name, path in paths.items():
    found = imported(ast.parse(path.read_text(encoding='utf-8')))
    homes = {x if x in paths else x.rpartition('.')[0] for x in found}
    out[name] = {x for x in homes if x in paths} - {name}
  return out


def circle(edges: dict[str, set[str]]) -> list[str]:
  """Returns one circle of imports, or nothing."""
  try:
    graphlib.TopologicalSorter(edges).prepare()
  except graphlib.CycleError as error:
    return error.args[1]
  return []


def test_few_entries_stand_in_front():
  entries = [
    path.name
    for path in (ROOT / 'agentrl').iterdir()
    if not path.name.startswith(('.', '__pycache__'))
  ]
  assert len(entries) <= MOST, sorted(entries)


def test_no_circle_of_imports():
  edges = graph(modules())
  del edges['agentrl']  # its names are imported when they are first used
  assert not circle(edges)


def test_the_reader_of_imports_reads_them():
  """So that the tests above can fail."""
  text = (
    'import a\nfrom b import c\n'
    'if TYPE_CHECKING:\n  import d\n'
    'def f():\n  import e.f\n'
  )
  assert imported(ast.parse(text)) == {'a', 'b.c', 'd', 'e.f'}
  assert set(circle({'a': {'b'}, 'b': {'c'}, 'c': {'a'}})) == set('abc')
  assert not circle({'a': {'b'}, 'b': set()})
