"""What stands on which floor, and that nothing reaches up.

A module imports from its own floor and from those below (docs: the shape).
"""

import ast
import collections
import functools
import graphlib
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent
FLOORS = (
  'types registry segment mesh schedule domain runtime ops',
  'nn text stats optimizer',
  'advantage loss reward',
  'model env tool service judge dataset task recall prefix curate memory log',
  'signal rollout',
  'collect learner evaluate gateway',
  'loop hooks',
  'configs',
  'run',
  'lab serve report testing',
  'cli experiments studies',
)
OF_PAPERS = ('configs.oprl_degraded',)  # methods that a paper's signal makes
FLOOR = {x: i for i, names in enumerate(FLOORS) for x in names.split()}
MATHS = ('ops', 'advantage', 'loss', 'reward', 'segment')
# What maths must not know: networks and optimizers, ours or others'.
NETWORKS = ('nn', 'model', 'optimizer', 'optax', 'flax.linen', 'flax.nnx')
MACHINE = re.compile(r'/(?:home|root|Users|mnt|work|tmp)/\w')
LONGEST_MAIN = 60  # lines
DEEPEST_RUN = 8  # modules of agentrl/run in a chain of imports
LARGEST_FOLDER = 0.15  # of all lines, subfolders not counted

# agentrl/configs and agentrl/experiments are links to folders of the root.
MODULES = [
  path
  for folder in ('agentrl', 'configs', 'experiments')
  for path in sorted((ROOT / folder).rglob('*.py'))
  if path.parts[len(ROOT.parts) :] != ('agentrl', '__init__.py')
  and path.parts[len(ROOT.parts) :][:2]
  not in (('agentrl', 'configs'), ('agentrl', 'experiments'))
]
EVERYTHING = [
  *MODULES,
  *sorted((ROOT / 'tests').rglob('*.py')),
  *sorted((ROOT / 'docs').rglob('*.py')),
]


def name(path: pathlib.Path) -> str:
  return str(path.relative_to(ROOT))


def unit(path: pathlib.Path) -> str:
  """The file or folder that has a floor, which the path is or is part of."""
  parts = path.relative_to(ROOT).with_suffix('').parts
  return unit_of('.'.join(parts[parts[0] == 'agentrl' :]))


def unit_of(dotted: str) -> str:
  """Of a module's name below agentrl."""
  first, *rest = dotted.split('.')
  of_paper = dotted.startswith(OF_PAPERS)
  return 'studies' if of_paper or (rest and rest[0] == 'studies') else first


@functools.cache
def parsed(path: pathlib.Path) -> ast.Module:
  return ast.parse(path.read_text(encoding='utf-8'))


@functools.cache
def imported(path: pathlib.Path) -> frozenset[str]:
  """Dotted names, `from a import b` as a.b."""
  out = set()
  for node in ast.walk(parsed(path)):
    if isinstance(node, ast.Import):
      out |= {alias.name for alias in node.names}
    elif isinstance(node, ast.ImportFrom):
      assert not node.level, f'{name(path)} imports relatively'
      out |= {f'{node.module}.{alias.name}' for alias in node.names}
  return frozenset(out)


def units(path: pathlib.Path) -> set[str]:
  """What of agentrl the file imports."""
  return {
    unit_of(x.removeprefix('agentrl.'))
    for x in imported(path)
    if x.startswith('agentrl.')
  }


def dotted(path: pathlib.Path) -> str:
  """The name that the module is imported by."""
  parts = path.relative_to(ROOT).with_suffix('').parts
  parts = parts[parts[0] == 'agentrl' : len(parts) - (path.stem == '__init__')]
  return '.'.join(['agentrl', *parts])


def graph(imports: dict[str, frozenset[str]]) -> dict[str, set[str]]:
  """Modules -> those of them that they import, a name of one stands for it."""
  return {
    module: {
      other
      for x in names
      for other in (x if x in imports else x.rpartition('.')[0],)
      if other in imports and other != module
    }
    for module, names in imports.items()
  }


def heights(of: dict[str, set[str]]) -> dict[str, int]:
  """Modules in the longest chain of imports that begins with each.

  Raises graphlib.CycleError.
  """
  out: dict[str, int] = {}
  for module in graphlib.TopologicalSorter(of).static_order():
    out[module] = 1 + max((out[x] for x in of[module]), default=0)
  return out


def within(dotted: str, *packages: str) -> bool:
  return any(dotted == p or dotted.startswith(f'{p}.') for p in packages)


def importing(paths, *packages: str) -> list[str]:
  """'file: name' of every import from one of the packages."""
  return [
    f'{name(path)}: {x}'
    for path in paths
    for x in sorted(imported(path))
    if within(x, *packages)
  ]


def test_every_module_has_a_floor():
  lacking = [name(path) for path in MODULES if unit(path) not in FLOOR]
  assert not lacking, 'place them in FLOORS, and in the design'


def test_imports_go_down():
  up = [
    f'{name(path)}: {x}'
    for path in MODULES
    for x in units(path)
    if FLOOR[x] > FLOOR[unit(path)]
  ]
  assert not up, 'they import what stands above them'


def test_run_is_read_in_few_floors():
  run = [p for p in MODULES if within(dotted(p), 'agentrl.run')]
  height = heights(graph({dotted(p): imported(p) for p in run}))
  high = {x: n for x, n in height.items() if n > DEEPEST_RUN}
  assert not high, 'they stand on too many others'


def test_what_plays_knows_no_stages():
  play = [p for p in MODULES if within(dotted(p), 'agentrl.run.play')]
  assert not importing(play, 'agentrl.run.stage')


def test_configs_are_read_from_run_on():
  """Below, a piece gets values."""
  below = [p for p in MODULES if FLOOR[unit(p)] < FLOOR['configs']]
  assert not importing(below, 'ml_collections')


def test_flags_are_the_mains():
  others = [p for p in MODULES if unit(p) not in ('experiments', 'cli')]
  assert not importing(others, 'absl.flags', 'absl.app')


def test_servers_are_the_gateways():
  """They come with an extra, and all else works without it."""
  others = [p for p in MODULES if unit(p) != 'gateway']
  assert not importing(others, 'starlette', 'uvicorn')
  assert not [
    name(path)
    for path in others
    for node in parsed(path).body
    if isinstance(node, ast.ImportFrom)
    and within(str(node.module), 'agentrl.gateway')
  ]


def test_there_is_one_import_name():
  """Imported by two names, a module is there twice."""
  assert not importing(EVERYTHING, 'configs', 'experiments')


def test_experiments_are_short_mains():
  for path in (ROOT / 'experiments').glob('*.py'):
    text = path.read_text(encoding='utf-8')
    assert len(text.splitlines()) <= LONGEST_MAIN, name(path)
    assert path.name == '__init__.py' or 'cli.run(' in text, name(path)


def test_no_folder_is_most_of_the_house():
  lines = collections.Counter()
  for path in MODULES:
    lines[path.parent] += len(path.read_text(encoding='utf-8').splitlines())
  folder, most = lines.most_common(1)[0]
  share = most / lines.total()
  assert share <= LARGEST_FOLDER, f'{name(folder)} has {share:.0%} of the lines'


def test_maths_knows_no_networks():
  """Also not through what it imports."""
  graph = {}
  for path in MODULES:
    graph.setdefault(unit(path), set()).update(units(path))
  for start in MATHS:
    seen, todo = set(), [start]
    while todo:
      at = todo.pop()
      if at not in seen:
        seen.add(at)
        todo += graph.get(at, ())
    assert not seen & set(NETWORKS), f'{start} reaches {sorted(seen)}'
  maths = [path for path in MODULES if unit(path) in MATHS]
  assert not importing(maths, *NETWORKS)


def test_no_field_is_guessed():
  """A field exists or the type differs: no hasattr, no getattr with default."""
  for path in MODULES:
    for node in ast.walk(parsed(path)):
      if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        assert node.func.id != 'hasattr', f'{name(path)}:{node.lineno}'
        guessed = node.func.id == 'getattr' and (
          len(node.args) == 3 or isinstance(node.args[1], ast.Constant)
        )
        assert not guessed, f'{name(path)}:{node.lineno}'


def test_no_path_of_a_machine():
  for path in EVERYTHING:
    text = path.read_text(encoding='utf-8')
    if path == pathlib.Path(__file__):
      text = text.replace(MACHINE.pattern, '')
    assert not MACHINE.findall(text), name(path)


def test_chains_and_circles_are_seen():
  """So that the tests above can fail."""
  chain = {'a': {'b.x'}, 'b': {'c', 'other'}, 'c': {'c'}}
  assert heights(graph(chain)) == {'a': 3, 'b': 2, 'c': 1}
  with pytest.raises(graphlib.CycleError):
    heights(graph(chain | {'c': {'a.y'}}))


def test_the_reader_of_imports_reads_them(tmp_path):
  """So that the tests above can fail."""
  file = tmp_path / 'x.py'
  file.write_text(
    'import jax\nfrom agentrl import loop, mesh\n'
    'def f():\n  from agentrl.model import policy\n'
    '  import agentrl.configs.studies.oprl\n'
  )
  assert units(file) == {'loop', 'mesh', 'model', 'studies'}
  assert within('absl.flags.FLAGS', 'jax', 'absl.flags')
  assert not within('absl.flagship', 'absl.flags')
