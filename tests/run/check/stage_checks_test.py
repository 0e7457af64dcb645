"""Stages and sources that do not fit together, before anything is built."""

import pytest

from agentrl.configs import base, grpo, stages
from agentrl.run.check import stage_checks, validate


def mixed(*sources, **fields):
  c = grpo.get_config('tiny')
  for name in sources:
    base.source(c, name, **fields)
  c.sft.mix = sources
  return c


@pytest.mark.parametrize(
  ('c', 'match'),
  [
    (mixed('ppo'), r'mix\.ppo has the name of a component'),
    (mixed('reward'), r'mix\.reward has the name of a component'),
    (mixed('a', kind='store'), r"mix\.a\.store='' do not fit together"),
    (mixed('a', store='x'), r"mix\.a\.store='x' do not fit together"),
    (mixed('a', kind='found', of='sft'), r"mix\.a\.of='sft' is for demonst"),
    (mixed('a', 'b', weight=0.0), r'sum to nothing; set one of mix\.a\.weight'),
    (mixed('a', edits=('keep_sloved',)), r"edit 'keep_sloved'.*keep_solved"),
    (mixed('a', weight=-1.0), r'mix\.a\.weight=-1\.0'),
  ],
)
def test_sources_that_cannot_be(c, match):
  with pytest.raises(ValueError, match=match) as caught:
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
  with pytest.raises(ValueError, match=r"sft\.mix names 'z', .*\('a', 'b'\)"):
    validate.config(c)
  c.sft.mix, c.sft.store = ('a',), 'demos'
  with pytest.raises(ValueError, match='both data of one stage'):
    validate.config(c)


def schedule(**weights):
  c = mixed('a', 'b', weight=0.0)
  c.schedule.mix = {name: {'weight': x} for name, x in weights.items()}
  return c


def test_weights_follow_schedules():
  validate.config(schedule(a=('linear', 1.0, 0.0, 0)))
  with pytest.raises(ValueError, match=r'mix\.a\.weight: end=-1'):
    validate.config(schedule(a=('linear', 1.0, -1.0, 0)))
  with pytest.raises(ValueError, match=r'mix\.z\.weight names no number'):
    validate.config(schedule(z=('linear', 1.0, 0.0, 0)))
  c = mixed('a', edits=('select',))
  base.finish(c)
  c.schedule.hp = {'a': {'select': {'n': ('linear', 1, 2, 0)}}}
  with pytest.raises(ValueError, match=r'hp\.a\.select\.n is read once'):
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
  with pytest.raises(ValueError, match=r's0 reads what .* put one there'):
    validate.config(listed('sft', 'rl'))
  with pytest.raises(ValueError, match=r's0 finds .*log\.groups=0; set it'):
    validate.config(listed('rl', 'sft', **{'log.groups': 0}))


def test_demonstrations_are_of_a_stage_that_there_is():
  c = listed('rl', 'sft', 'rl')
  c.mix.found.update(kind='demonstrations', of='s2')
  validate.config(c)
  c.mix.found.of = 's3'
  with pytest.raises(ValueError, match=r"mix\.found\.of='s3' is no stage"):
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
  with pytest.raises(ValueError, match=r"s1: prefix_source='x' is no source"):
    validate.config(prefixed(prefix_source='x'))
  with pytest.raises(ValueError, match=r"s1: prefix must be .*'random_prefix'"):
    validate.config(prefixed(prefix='none'))
  with pytest.raises(ValueError, match=r's1 .* of stage s0 .*other tasks'):
    validate.config(prefixed(**{'env.train': 7}))
  of = {'kind': 'demonstrations', 'of': 's0'}
  with pytest.raises(ValueError, match=r's1 .* of stage s0 .*other tasks'):
    validate.config(prefixed(of, **{'env.train': 7}))
  alone = prefixed()
  alone.stages = ('s1', 's0')
  with pytest.raises(ValueError, match=r's1 reads what was found before it'):
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
  with pytest.raises(ValueError, match=f'role.critic.{field} is .* in stage a'):
    stage_checks.roles(stages.plans(c))
