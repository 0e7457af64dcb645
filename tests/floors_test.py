"""What stands on which floor, and that nothing reaches up.

A module imports from its own floor and from those below (docs: the shape).
"""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent
FLOORS = (
  (
    'types', 'counting', 'segment', 'mesh', 'registry', 'domain', 'install',
    'storage',
  ),
  ('nn', 'text', 'advantage', 'loss', 'reward'),
  (
    'model', 'env', 'tool', 'service', 'dataset', 'task', 'curate', 'memory',
    'optim', 'plan', 'schedule', 'statistics', 'agreement', 'paired',
  ),
  ('signal', 'rollout'),
  (
    'collect', 'method', 'objective', 'learner', 'checkpoint', 'metrics',
    'evaluate', 'report', 'kept', 'narrate', 'interrupt', 'tracking', 'events',
    'lock',
  ),
  ('loop',),
  ('experiments', 'configs'),
)  # fmt: skip
FLOOR = {name: i for i, names in enumerate(FLOORS) for name in names}
TOP = len(FLOORS) - 1
MATHS = ('advantage', 'loss', 'reward', 'segment')
# What maths must not know: networks and optimizers, ours or others'.
NETWORKS = ('nn', 'model', 'optim', 'optax', 'flax.linen', 'flax.nnx')
ABOVE = ('absl.flags', 'absl.app', 'ml_collections', 'configs', 'experiments')
MACHINE = re.compile(r'/(?:home|root|Users|mnt|work|tmp)/\w')

SOURCES = sorted((ROOT / 'agentrl').rglob('*.py'))
EVERYTHING = [
  path
  for folder in ('agentrl', 'configs', 'experiments', 'tests')
  for path in sorted((ROOT / folder).rglob('*.py'))
]


def name(path: pathlib.Path) -> str:
  return str(path.relative_to(ROOT))


def unit(path: pathlib.Path) -> str:
  """The file or folder of agentrl that the path is, or is part of."""
  part = path.relative_to(ROOT / 'agentrl').parts[0]
  return part.removesuffix('.py')


def imported(path: pathlib.Path) -> set[str]:
  """Dotted names, `from a import b` as a.b."""
  out = set()
  for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
    if isinstance(node, ast.Import):
      out |= {alias.name for alias in node.names}
    elif isinstance(node, ast.ImportFrom):
      assert not node.level, f'{name(path)} imports relatively'
      out |= {f'{node.module}.{alias.name}' for alias in node.names}
  return out


def units(path: pathlib.Path) -> set[str]:
  """What of agentrl the file imports."""
  return {x.split('.')[1] for x in imported(path) if x.startswith('agentrl.')}


def within(dotted: str, package: str) -> bool:
  return dotted == package or dotted.startswith(package + '.')


MODULES = [path for path in SOURCES if unit(path) != '__init__']
by_name = pytest.mark.parametrize('path', MODULES, ids=name)


@by_name
def test_every_module_has_a_floor(path):
  assert unit(path) in FLOOR, 'place it in FLOORS, and in the design'


@by_name
def test_imports_go_down(path):
  floor = FLOOR[unit(path)]
  up = {x for x in units(path) if FLOOR[x] > floor}
  assert not up, f'{name(path)} on floor {floor} imports {sorted(up)} above it'


@by_name
def test_flags_and_configs_stay_on_top(path):
  known = [x for x in imported(path) for a in ABOVE if within(x, a)]
  assert not known, f'{name(path)} imports {known}'


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
  for path in MODULES:
    if unit(path) in MATHS:
      foreign = [x for x in imported(path) for a in NETWORKS if within(x, a)]
      assert not foreign, f'{name(path)} imports {foreign}'


@by_name
def test_no_field_is_guessed(path):
  """A field exists or the type differs: no hasattr, no getattr with default."""
  for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
      assert node.func.id != 'hasattr', f'{name(path)}:{node.lineno}'
      guessed = node.func.id == 'getattr' and (
        len(node.args) == 3 or isinstance(node.args[1], ast.Constant)
      )
      assert not guessed, f'{name(path)}:{node.lineno}'


@pytest.mark.parametrize('path', EVERYTHING, ids=name)
def test_no_path_of_a_machine(path):
  text = path.read_text(encoding='utf-8')
  if path == pathlib.Path(__file__):
    text = text.replace(MACHINE.pattern, '')
  assert not MACHINE.findall(text)


def test_the_reader_of_imports_reads_them(tmp_path):
  """So that the tests above can fail."""
  file = tmp_path / 'x.py'
  file.write_text(
    'import jax\nfrom agentrl import loop, mesh\n'
    'def f():\n  from agentrl.model import policy\n'
  )
  assert units(file) == {'loop', 'mesh', 'model'}
  assert within('absl.flags.FLAGS', 'absl.flags')
  assert not within('absl.flagship', 'absl.flags')
