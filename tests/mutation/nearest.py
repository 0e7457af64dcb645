"""Tests that are near a module: its mirror, then those that import it."""

import collections
import functools
import pathlib
import re

ROOT = pathlib.Path(__file__).parent.parent.parent
STEPS = 4  # imports from a test to the module
FOLDERS = 'agentrl', 'configs', 'docs', 'experiments', 'tests'
# A syntax tree of every file takes ten times as long.
_IMPORT = re.compile(
  r'^ *(?:from ([\w.]+) import (\([^)]*\)|[^#\n]*)|import ([^#\n]*))', re.M
)
LINKS = 'agentrl/configs', 'agentrl/experiments'  # to folders of the root


@functools.cache
def files() -> tuple[str, ...]:
  """Python files below the root, a linked folder where it lies."""
  names = (
    path.relative_to(ROOT).as_posix()
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob('*.py'))
  )
  return tuple(x for x in names if not x.startswith(LINKS))


def modules(folders: tuple[str, ...], without: tuple[str, ...]) -> list[str]:
  """Files below some folders or at some paths, and not below others."""
  below = lambda name, x: name == x or name.startswith(f'{x}/')  # noqa: E731
  return [
    name
    for name in files()
    if any(below(name, x) for x in folders)
    and not any(below(name, x) for x in without)
  ]


def mirror(module: str) -> str:
  """The file of tests at the module's path, if there is one."""
  return 'tests' + module.removeprefix('agentrl').replace('.py', '_test.py')


def tests(module: str) -> list[str]:
  """Files of tests that reach it by imports, the nearest first.

  The mirror comes first, and last what lies beside it: tests of a program
  import nothing of it. Of others as near, those first that import the least.
  """
  own = mirror(module)
  distance, todo = {module: 0}, collections.deque([module])
  while todo:
    at = todo.popleft()
    for name in _importers()[at]:
      if name not in distance and distance[at] < STEPS:
        distance[name] = distance[at] + 1
        todo.append(name)
  for name in files():
    if pathlib.Path(name).parent == pathlib.Path(own).parent:
      distance.setdefault(name, STEPS + 1)
  return sorted(
    (x for x in distance if x.endswith('_test.py')),
    key=lambda x: (x != own, distance[x], len(_imported(x)), x),
  )


@functools.cache
def _importers() -> dict[str, set[str]]:
  found = collections.defaultdict(set)
  for name in files():
    for other in _imported(name):
      found[other].add(name)
  return found


@functools.cache
def _imported(name: str) -> frozenset[str]:
  """Files of the repository that a file imports itself."""
  dotted = set()
  text = (ROOT / name).read_text(encoding='utf-8')
  for module, names, plain in _IMPORT.findall(text):
    words = re.sub(r'#.*|[()]', '', names or plain).split(',')
    found = [x.split(' as ')[0].strip() for x in words if x.strip()]
    dotted |= {f'{module}.{x}' if module else x for x in found}
  return frozenset(x for x in map(_file, dotted) if x) - {name}


def _file(dotted: str) -> str | None:
  """What defines it: a module, a folder or, of a name in it, its module."""
  place = pathlib.Path(*dotted.split('.'))
  if dotted.startswith(('agentrl.configs', 'agentrl.experiments')):
    place = place.relative_to('agentrl')
  for path in (place, place.parent):
    for name in (f'{path}.py', f'{path}/__init__.py'):
      if name in _names():
        return name
  return None


@functools.cache
def _names() -> frozenset[str]:
  return frozenset(files())
