"""Stages and sources that do not fit together, before anything is built."""

import pytest

from agentrl.configs import base, grpo, stages
from agentrl.run.check import stage_checks, validate
from tests import errors


def mixed(*sources, **fields):
  c = grpo.get_config('tiny')
  for name in sources:
    base.source(c, name, **fields)
  c.sft.mix = sources
  return c


@pytest.mark.parametrize(
  ('c', 'match'),
  [
    (mixed('ppo'), 'mix.ppo'),
    (mixed('reward'), 'mix.reward'),
    (mixed('a', kind='store'), 'mix.a.store'),
    (mixed('a', store='x'), 'mix.a.store x'),
    (mixed('a', kind='found', of='sft'), 'mix.a.of sft'),
    (mixed('a', 'b', weight=0.0), 'mix.a.weight'),
    (mixed('a', edits=('keep_sloved',)), 'keep_sloved keep_solved'),
    (mixed('a', weight=-1.0), 'mix.a.weight -1.0'),
  ],
)
def test_sources_that_cannot_be(c, match):
  with errors.raises(ValueError, match) as caught:
    validate.config(c)
  assert '\n' not in str(caught.value)


def test_sources_that_fit():
  c = mixed('a', 'b')
  c.mix.b.edits = ('select', 'keep_solved')
  base.finish(c)
  assert c.hp.b.select.n == 1000
  c.hp.b.select.n = 7
  validate.config(c)
  c.sft.mix = ('a', 'z')
  with errors.raises(ValueError, 'sft.mix z a b'):
    validate.config(c)
  c.sft.mix, c.sft.store = ('a',), 'demos'
  with pytest.raises(ValueError):
    validate.config(c)


def schedule(**weights):
  c = mixed('a', 'b', weight=0.0)
  c.schedule.mix = {name: {'weight': x} for name, x in weights.items()}
  return c


def test_weights_follow_schedules():
  validate.config(schedule(a=('linear', 1.0, 0.0, 0)))
  with errors.raises(ValueError, 'mix.a.weight end -1'):
    validate.config(schedule(a=('linear', 1.0, -1.0, 0)))
  with errors.raises(ValueError, 'mix.z.weight'):
    validate.config(schedule(z=('linear', 1.0, 0.0, 0)))
  c = mixed('a', edits=('select',))
  base.finish(c)
  c.schedule.hp = {'a': {'select': {'n': ('linear', 1, 2, 0)}}}
  with errors.raises(ValueError, 'hp.a.select.n'):
    validate.config(c)


def listed(*kinds, **changes):
  """Stages s0, s1, ... of these kinds; supervised ones read what was found."""
  c = grpo.get_config('tiny')
  base.source(c, 'found', kind='found')
  for i, kind in enumerate(kinds):
    of = {'sft.mix': ('found',)} if kind == 'sft' else changes
    base.stage(c, f's{i}', kind=kind, steps=1, changes=of)
  c.stages = tuple(f's{i}' for i in range(len(kinds)))
  return c


def test_what_is_found_is_found_before():
  validate.config(listed('rl', 'sft', 'rl', 'sft'))
  with errors.raises(ValueError, 's0'):
    validate.config(listed('sft', 'rl'))
  with errors.raises(ValueError, 's0 log.groups 0'):
    validate.config(listed('rl', 'sft', **{'log.groups': 0}))


def test_demonstrations_are_of_a_stage_that_there_is():
  c = listed('rl', 'sft', 'rl')
  c.mix.found.update(kind='demonstrations', of='s2')
  validate.config(c)
  c.mix.found.of = 's3'
  with errors.raises(ValueError, 'mix.found.of s3'):
    validate.config(c)


def prefixed(source=None, **changes):
  """Stage s0, and s1 that begins like what a source holds."""
  given = {'prefix': 'random_prefix', 'prefix_source': 'found'}
  c = listed('rl', 'rl')
  c.mix.found.update(source or {})
  base.stage(c, 's1', steps=1, changes=given | changes)
  return c


def test_prefixes_are_of_a_source_of_the_same_tasks():
  validate.config(prefixed())
  with errors.raises(ValueError, 's1 prefix_source x'):
    validate.config(prefixed(prefix_source='x'))
  with errors.raises(ValueError, 's1 prefix random_prefix'):
    validate.config(prefixed(prefix='none'))
  with errors.raises(ValueError, 's1 s0'):
    validate.config(prefixed(**{'env.train': 7}))
  of = {'kind': 'demonstrations', 'of': 's0'}
  with errors.raises(ValueError, 's1 s0'):
    validate.config(prefixed(of, **{'env.train': 7}))
  alone = prefixed()
  alone.stages = ('s1', 's0')
  with errors.raises(ValueError, 's1'):
    validate.config(alone)


def test_the_newest_stages_are_read():
  plans = stages.plans(listed('rl', 'sft', 'rl', 'rl', 'sft'))
  names = [
    [x.name for x in stage_checks.read_by(plans[:4], last)]
    for last in (0, 1, 2, 9)
  ]
  assert names == [['s0', 's2', 's3'], ['s3'], ['s2', 's3'], ['s0', 's2', 's3']]


@pytest.mark.parametrize(
  ('field', 'value'),
  [('heads', 2), ('optimizer', 'sgd'), ('trunk', 'stopped')],
)
def test_one_name_is_one_role(field, value):
  c = grpo.get_config('tiny')
  base.role(c, 'critic', heads=1)
  base.stage(c, 'a', steps=1)
  base.stage(c, 'b', steps=1, changes={f'role.critic.{field}': value})
  c.stages = ('a', 'b')
  with errors.raises(ValueError, f'role.critic.{field}'):
    stage_checks.roles(stages.plans(c))
