"""Every field is checked against the domain that it declares.

What each kind of domain lets in is tested in tests/domain_test.py.
"""

import importlib
import math

import pytest
from ml_collections import ConfigDict

from agentrl import domain, registry
from agentrl.configs import base, envs, grpo
from agentrl.configs import config as config_lib
from agentrl.env import base as env_base
from agentrl.lab.papers.dose import (  # noqa: F401  register
  degraded_truth,
  prm_persistence,
)
from agentrl.run import config_file
from agentrl.run.check import fields, validate
from docs.generate import config
from tests import errors

# Among them one of every kind that some field refuses.
ODD = math.nan, math.inf, -1, 0, 0.5, 1, 10**12, None, True, '', 'nope', ()


def configs():
  """Small configs that have every field between them."""
  names = (*envs.JITTED, *env_base.FAMILIES)
  for name in names:
    c = grpo.get_config(f'tiny,env={name}')
    base.role(c, 'other')
    base.reading(c, 'other')
    base.service(c, 'other', function='agentrl.env.worlds.interview:truthful')
    c.select.ppo = {'span': 'other'}
    c.select.kl_k3 = {'source': 0}
    c.loss_aggregation.ppo = 'token_mean'
    if name == names[-1]:  # every stage is checked as a config of its own
      base.source(c, 'other')
      base.stage(c, 'other', steps=1)
      c.stages = ('sft', 'rl', 'other')
    yield name, c


def put(c, path, value):
  *before, last = path.split('.')
  for name in before:
    c = c[name]
  old = c[last]
  del c[last]  # its type would turn 1 into 1.0
  c[last] = value
  return old


def check_odd(field, of, check):
  """Holds what a check refuses against the domain of a field."""
  name = field.rpartition('.')[2]
  for value in ODD:
    if of.mistake(value, {}):
      with errors.raises(ValueError, f'{name} {value!r}') as caught:
        check(value)
      assert '\n' not in str(caught.value)


@pytest.mark.slow
def test_fields_are_refused_what_is_outside_of_their_domains():
  seen = set()
  for name, c in configs():
    for path, field in fields.declared(c).items():
      own = f'{name}.{path}' if path.startswith('env.') else path
      if field.domain is None or own in seen or path not in fields.flat(c):
        continue
      seen.add(own)
      old = put(c, path, None)

      def check(value, c=c, path=path):
        put(c, path, value)
        fields.read(c)

      check_odd(path, field.domain, check)
      put(c, path, old)
    fields.read(c)  # with every default in its place
  assert {'rollout.batch', 'sokoban.env.boxes', 'role.other.lr'} <= seen


def test_hyper_parameters_are_refused_what_is_outside_of_their_domains():
  for piece in pieces():
    for name in piece.defaults:

      def check(value, piece=piece, name=name):
        registry.check_values(piece.slot, piece, {name: value})

      check_odd(name, piece.domains[name], check)


def pieces():
  """Those that ship."""
  for slot in registry.SLOTS:
    for name in registry.names(slot):
      piece = registry.get(slot, name)
      if piece.f.__module__.startswith('agentrl.'):
        yield piece


def test_every_hyper_parameter_declares_its_domain():
  for piece in pieces():
    own = domain.declared(piece.f)
    for name, value in piece.defaults.items():
      assert name in own, (
        f'{piece.slot} {piece.name}: declare {name} as an Annotated type of'
        ' agentrl/domain.py'
      )
      own[name].check(name, value, piece.defaults)


@pytest.mark.parametrize('name', ['rollout', 'env', 'role', 'eval'])
@pytest.mark.parametrize('value', [None, 1, {}, {'nope': 1}])
def test_what_stands_in_place_of_a_section_is_refused(name, value):
  """By the first that reads it, which fills in what flags may set."""
  c = grpo.get_config('tiny')
  with c.unlocked():
    del c[name]
    c[name] = value
  with errors.raises(ValueError, name):
    base.fill(c)
    fields.read(c)


def test_keys_that_are_no_names_are_refused():
  c = grpo.get_config('tiny')
  with c.unlocked():
    c.hp[1] = 2
  with errors.raises(ValueError, 'hp'):
    base.fill(c)


def test_a_stream_that_is_not_summed_is_checked_too():
  c = grpo.get_config('tiny')
  c.stream.spare = ('nope',)
  with errors.raises(ValueError, 'c.stream.spare nope'):
    validate.config(c)


OPEN = 'coef.ppo', 'loss_aggregation.ppo', 'stream.episode', 'select.ppo.span'


@pytest.mark.parametrize('path', OPEN)
@pytest.mark.parametrize('value', [{}, {'a': 1}])
def test_a_section_in_place_of_a_value_is_refused(path, value):
  """An empty one holds no value that could be outside of a domain."""
  c = grpo.get_config('tiny')
  c.loss_aggregation.ppo = 'token_mean'
  c.select.ppo = {'span': 'other'}
  validate.config(c)
  put(c, path, ConfigDict(value))
  with errors.raises(ValueError, path):
    validate.config(c)


@pytest.mark.parametrize(
  ('env', 'name'),
  [('jsonl', 'info'), ('jsonl', 'test_path'), ('countdown', 'format')],
)
@pytest.mark.parametrize('value', [[[]], (((),),), {}, {'a': 1}, b'x', None])
def test_no_family_sees_a_setting_outside_of_its_domain(env, name, value):
  """Flags are filled in with what families say of their settings."""
  c = grpo.get_config(f'tiny,env={env}')
  put(c, f'env.{name}', value)
  with errors.raises(ValueError, f'env.{name}'):
    config_file.fill(c)


METHODS = config_file.methods()


@pytest.mark.parametrize('arg', ['tiny', 'env=countdown'])
def test_every_field_of_every_config_is_declared(arg):
  for method in METHODS:
    module = importlib.import_module(f'agentrl.configs.{method}')
    fields.read(module.get_config(arg))


def test_every_default_is_in_its_domain():
  tables = [config_lib.declared(), *map(envs.declared, envs.JITTED)]
  for table in tables:
    beside = {name: field.default for name, field in table.items()}
    for name, field in table.items():
      assert field.meaning
      if name != 'advantage':  # a method fills it
        field.domain.check(name, field.default, beside)


@pytest.mark.parametrize(
  'path',
  [
    *('task', 'rollout.kind', 'collect', 'minibatch', 'reward', 'curate'),
    *('signal', 'advantage', 'post', 'loss', 'memory'),
    *('stream.episode', 'loss_aggregation.ppo'),
  ],
)
def test_pieces_that_there_are_not(path):
  c = grpo.get_config('tiny')
  c.loss_aggregation.ppo = 'token_mean'
  many = isinstance(fields.flat(c)[path], tuple)
  put(c, path, ('nope',) if many else 'nope')
  with errors.raises(ValueError, 'nope'):
    validate.config(c)


def test_a_bucket_is_no_path():
  c = grpo.get_config('tiny')
  put(c, 'init', 'gs://bucket/x')  # but a run may be in one
  fields.read(c)
  for path in ('data', 'model.path', 'lora.path', 'env.levels'):
    old = put(c, path, 'gs://bucket/x')
    with errors.raises(ValueError, f'{path} gs://bucket/x'):
      validate.config(c)
    put(c, path, old)


def test_a_piece_of_a_user_is_checked_by_the_types_of_its_defaults():
  def own(x, *, rate: float = 0.5, many: int = 3, free=None):
    return x

  piece = registry.Component('link', 'own', own)
  registry.check_values('s', piece, {'rate': -2.0, 'free': object()})
  for values in ({'rate': math.nan}, {'many': 0.5}, {'many': True}):
    with errors.raises(ValueError, 'hp.s.own'):
      registry.check_values('s', piece, values)


def test_the_page_is_up_to_date():
  with open(config.PAGE, encoding='utf-8') as f:
    text = f.read()
  assert text == config.page(), 'run `python -m docs.generate.config`'


def test_help_lists_the_fields_of_a_config():
  text = fields.listed(grpo.get_config('tiny'))
  for line in (
    '--config.rollout.top_p=1.0: a number in (0, 1]; ',
    '--config.hp.ppo.ppo.clip_low=0.2: a number > 0, or inf; the ratio ',
    '--config.hp.minibatch.minibatches.n=2: an integer >= 1; sub-updates ',
    '--config.env.width=6: an integer in [3, 64]; columns',
  ):
    assert line in text
