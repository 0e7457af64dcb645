"""Every config loads, fits together, and can be changed by flags."""

import ast
import functools
import importlib
import re
import zlib

import pytest
from absl import flags
from ml_collections import ConfigDict, config_flags

from agentrl import registry
from agentrl.configs import base
from agentrl.run import algorithm, config_file
from agentrl.run.check import validate
from tests import errors

METHODS = config_file.methods()
FILES = [f'configs/{name}.py' for name in METHODS]
ARGS = (
  '',
  'tiny',
  'env=frozen_lake',
  'tiny,env=frozen_lake',
  'env=bifurcation',
)


def parse(*argv):
  """The config as a main sees it after its flags."""
  values, argv = flags.FlagValues(), ['main', *argv]
  holder = config_flags.DEFINE_config_file(
    'config', None, lock_config=True, flag_values=values, sys_argv=argv
  )
  values(argv)
  return holder.value


def mistake(c) -> str:
  try:
    registry.check(base.wiring(c))
  except ValueError as error:
    return str(error)
  return ''


def at_night(method: str, arg: str):
  """Each method has one environment by day, and all of them at night."""
  drawn = ARGS[zlib.crc32(method.encode()) % len(ARGS)]
  marks = () if arg == drawn else pytest.mark.nightly
  return pytest.param(method, arg, marks=marks)


CASES = [at_night(method, arg) for method in METHODS for arg in ARGS]


@pytest.mark.parametrize(('method', 'arg'), CASES)
def test_config_fits_together(method, arg):
  """In a world that tells what its reward is made of, its own at least."""
  module = importlib.import_module(f'agentrl.configs.{method}')
  c = module.get_config(arg)
  assert c.method == method
  if reason := mistake(c):
    assert c.env.name != module.get_config().env.name
    # Which only some worlds tell, or have.
    told = 'term:', 'column:agent', 'env:goals', 'env:proposals', 'env:skills'
    assert any(x in reason for x in told)


@pytest.mark.parametrize('method', METHODS)
def test_every_hyper_parameter_is_a_field(method):
  c = importlib.import_module(f'agentrl.configs.{method}').get_config('tiny')
  assert c.hp.to_dict() == registry.defaults(base.wiring(c))
  assert set(c.coef) == {*c.advantage, *c.loss}


@pytest.mark.parametrize('path', FILES)
def test_file_is_short_and_says_how_to_run_it(path):
  with open(path, encoding='utf-8') as f:
    text = f.read()
  assert len(text.splitlines()) <= 60
  doc = importlib.import_module(path[:-3].replace('/', '.')).__doc__
  assert f'--config={path}' in doc
  assert re.search(r'\b\d{4}\.\d{5}\b', doc), 'an arXiv number'


FIELDS = (
  'hp|coef|stream|rollout|role|env|schedule|collect|signal|curate|post|reward'
  '|loss|loss_aggregation|minibatch|memory'
)
# A field that a docstring names, with the value that it says to give it.
FIELD = re.compile(
  rf'(?<![\w./])((?:--config|c)\.(?:{FIELDS})(?:\.[a-z_]\w*)*|'
  rf'(?:{FIELDS})(?:\.[a-z_]\w*)+)'
  r"""(?:(?:\s?=\s?|\s+to\s+)("?\(.*?\)"?|'\w+'|\w+(?:\.\d+)?))?""",
  re.DOTALL,
)


def documented(doc):
  """(path, value or '') of the fields that a docstring names."""
  for path, value in FIELD.findall(doc):
    yield path.removeprefix('--config.').removeprefix('c.'), value.strip('"')


def test_a_documented_field_is_seen():
  doc = """As --config.env.reward=sparse, hp.a.b.lam=0 and
  rollout.state_hash_fraction = 0.5; stream.episode =
('center', 'scale') and hp.step.scale.eps. Set c.signal to
  ('a',). No file tests/env.py, no hp.
"""
  assert list(documented(doc)) == [
    ('env.reward', 'sparse'),
    ('hp.a.b.lam', '0'),
    ('rollout.state_hash_fraction', '0.5'),
    ('stream.episode', "('center', 'scale')"),
    ('hp.step.scale.eps', ''),
    ('signal', "('a',)"),
  ]


@pytest.mark.parametrize('method', METHODS)
def test_what_a_docstring_says_to_set_can_be_set(method):
  """Every field exists, every value is taken, every schedule runs."""
  module = importlib.import_module(f'agentrl.configs.{method}')
  schedules = re.findall(r'^ *(c\.schedule.*)$', module.__doc__, re.MULTILINE)
  assert len(schedules) == module.__doc__.count('c.schedule')
  for line in schedules:
    c = module.get_config('tiny')
    before = algorithm.schedules(c)
    exec(line, {'c': c, 'ConfigDict': ConfigDict})
    validate.config(c)
    after = algorithm.schedules(c)
    assert set(after) > set(before)
    assert all(s.steps > 0 for s in after.values())
  for path, value in documented(re.sub(r'c\.schedule.*', '', module.__doc__)):
    c = module.get_config('tiny')
    node = functools.reduce(getattr, path.split('.')[:-1], c)
    name = path.split('.')[-1]
    assert name in node, f'{path} is no field'
    if value:
      if not isinstance(node[name], str):
        value = ast.literal_eval(value)
      node[name] = value.strip("'") if isinstance(value, str) else value
      validate.config(c)


def test_memact_dcpo_is_grpo_and_steppo_is_ppo_turn_as_they_say():
  """In every field but the name, on jittable worlds."""
  for name, other in (('memact_dcpo', 'grpo'), ('steppo', 'ppo_turn')):
    for arg in ARGS:
      modules = [
        importlib.import_module(f'agentrl.configs.{x}') for x in (name, other)
      ]
      one, two = (module.get_config(arg) for module in modules)
      assert one.method == name
      one.method = other
      jitted = one.env.name == two.env.name
      assert jitted or 'env=' not in arg
      assert (one.to_dict() == two.to_dict()) == jitted


def test_flags_reach_tuples_coefficients_and_hyper_parameters():
  c = parse(
    '--config=configs/oprl.py:tiny',
    "--config.stream.step=('add_signal','leave_one_out')",
    '--config.hp.signal.implicit_prm.beta=0.1',
    '--config.coef.step=0.5',
    "--config.hp.step.center.by=('group','state')",
    '--config.env.reward=sparse',
  )
  assert c.stream.step == ('add_signal', 'leave_one_out')
  w = base.wiring(c)
  registry.check(w)
  assert w.values('signal', 'implicit_prm')['beta'] == 0.1
  assert w.values('step', 'center')['by'] == ('group', 'state')
  assert (c.coef.step, c.env.reward) == (0.5, 'sparse')


@pytest.mark.parametrize(
  ('change', 'names'),
  [
    (
      lambda c: base.hp(c, 'episode', 'scale', ddof=0),
      'c.hp.episode.scale',
    ),
    (lambda c: base.hp(c, 'ppo', 'ppo', clip=0.1), 'ppo clip'),
    (
      lambda c: c.loss_aggregation.update(ppo_dual='token_mean'),
      'c.loss_aggregation.ppo_dual',
    ),
    (lambda c: c.coef.update(step=2.0), 'c.coef.step'),
  ],
)
def test_a_field_of_no_piece_is_refused(change, names):
  c = base.get_config('tiny')
  change(c)
  with errors.raises(ValueError, names):
    base.finish(c)
