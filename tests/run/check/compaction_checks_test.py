"""Conversations that begin anew: what cannot, in one sentence."""

import pytest

from agentrl import registry
from agentrl.configs import base, compaction_rl, grpo, memact_dcpo
from agentrl.run import build
from agentrl.run.check import validate
from agentrl.run.play import host_env
from tests import errors


def changed(method=compaction_rl, arg='tiny', **changes):
  c = method.get_config(arg)
  with c.unlocked():
    for path, value in changes.items():
      node, names = c, path.split('__')
      for name in names[:-1]:
        node = node[name]
      node[names[-1]] = value
  return c


@pytest.mark.parametrize(
  ('changes', 'sentence'),
  [
    (dict(compaction__threshold=(90, 80)), 'compaction.threshold (90, 80)'),
    (dict(compaction__threshold=(90,)), 'compaction.threshold (90,)'),
    (dict(compaction__tokens=21), 'compaction.tokens 21 20'),
    (dict(compaction__most=0), 'compaction.most 0'),
    (dict(compaction__request=''), 'compaction.request'),
    (dict(compaction__summary='moon'), 'compaction.summary moon'),
    (dict(rollout__context=100), 'rollout.context 100'),
    (dict(rollout__window=2), 'rollout.window 2'),
    (dict(rollout__null_observation='-'), 'rollout.null_observation'),
    (dict(sft__store='mine'), 'sft.store mine'),
    (dict(prefix='random_prefix'), 'prefix random_prefix'),
  ],
)
def test_mistakes(changes, sentence):
  with errors.raises(ValueError, sentence):
    validate.config(changed(**changes))


def test_worlds_that_cannot():
  """Edits inside jit, seats, programs, and experts without summaries."""
  c = grpo.get_config('tiny,env=sokoban')
  c.rollout.history = 'edit'
  with errors.raises(ValueError, 'rollout.history sokoban edit'):
    validate.config(c)
  c.rollout.history, c.compaction.tokens = 'compact', 2
  with errors.raises(ValueError, 'stages sft sokoban'):
    build.experiment(c)
  c = grpo.get_config('tiny,env=kuhn_poker')
  c.rollout.history, c.compaction.tokens = 'compact', 2
  with errors.raises(ValueError, 'rollout.history kuhn_poker compact'):
    build.experiment(c)
  c = grpo.get_config('tiny,env=frozen_lake')
  c.rollout.history, c.rollout.kind = 'compact', 'options'
  c.compaction.tokens = 2
  with errors.raises(ValueError, 'rollout.kind options'):
    validate.config(c)
  c = grpo.get_config('tiny,env=program')
  c.env.function, c.env.world = 'tests.gateway.players:play', 'countdown'
  c.rollout.history, c.compaction.threshold = 'compact', (300, 300)
  with errors.raises(ValueError, 'rollout.history compact program'):
    build.experiment(c)
  c = grpo.get_config('tiny,env=countdown')
  c.rollout.history, c.compaction.threshold = 'compact', (300, 300)
  with errors.raises(ValueError, 'stages sft countdown'):
    build.experiment(c)


def test_a_rewritten_or_hinted_history(tmp_path):
  c = changed()
  base.reading(c, 'hinted', text='think')
  with errors.raises(ValueError, 'reading hinted'):
    validate.config(c)
  c = changed()
  base.source(c, 'found', kind='found')
  c.sft.mix = ('found',)
  with errors.raises(ValueError, 'mix.found.kind found'):
    validate.config(c)
  c = grpo.get_config('tiny,env=math_python')
  c.rollout.kind, c.rollout.history = 'host_purified', 'compact'
  with errors.raises(ValueError, 'rollout.kind host_purified'):
    validate.config(c)


@pytest.mark.parametrize(
  ('changes', 'least'),
  [
    # Two observations of 12 tokens, a summary and a message of 20.
    ({}, 64),
    (dict(compaction__tokens=10), 54),
    (dict(compaction__summary='none'), 44),
    (dict(compaction__summary='none', compaction__keep_task=False), 32),
    (dict(compaction__keep_task=False), 58),  # 6 of the request
  ],
)
def test_a_prompt_that_begins_anew_fits(tmp_path, changes, least):
  """The least length is one that is not compacted as soon as it begins."""
  changes = dict(data=str(tmp_path), env__train=8, env__test=4) | changes
  low = dict(compaction__threshold=(least - 1, 99))
  with errors.raises(ValueError, f'compaction.threshold {least} 99'):
    build.experiment(changed(**changes, **low))
  low = dict(compaction__threshold=(least, 99))
  s = build.experiment(changed(**changes, **low))
  most, made = s.plan.compaction.most, s.plan.compaction
  assert s.plan.context == made.context
  assert s.capacity.row == most * made.context + 99
  assert s.world.columns == (*s.world.family.columns, 'summary')
  assert 'term:summary' in registry.provided(s.algorithm.spec)


@pytest.mark.parametrize(
  ('changes', 'least'),
  [
    # The request of 2 tokens, a summary of 4, an observation of 6, and 4.
    ({}, 16),
    (dict(compaction__tokens=3), None),  # three letters and an end
    (dict(compaction__keep_task=True), 20),
    (dict(compaction__summary='none'), 10),
    (dict(compaction__summary='none', compaction__keep_task=True), 16),
    (dict(rollout__max_message_tokens=5), 17),
  ],
)
def test_a_prompt_that_begins_anew_fits_inside_jit(tmp_path, changes, least):
  arg = 'tiny,env=carried_code'
  own = dict(data=str(tmp_path), env__train=8, env__test=4)
  if least is None:
    with errors.raises(ValueError, 'compaction.tokens 4 carried_code 3'):
      build.experiment(changed(arg=arg, **own, **changes))
    return
  own |= changes
  low = dict(compaction__threshold=(least - 1, 40))
  with errors.raises(ValueError, f'compaction.threshold {least} 40'):
    build.experiment(changed(arg=arg, **own, **low))
  low = dict(compaction__threshold=(least, 40))
  s = build.experiment(changed(arg=arg, **own, **low))
  rule = s.plan.compaction
  assert s.capacity.row == rule.most * rule.context + 40
  assert s.capacity.cache == rule.context + 1
  assert 'term:summary' in registry.provided(s.algorithm.spec)


def test_only_demonstrations_have_an_expert(tmp_path):
  sizes = dict(data=str(tmp_path), env__train=8, env__test=4)
  s = build.experiment(changed(**sizes))
  assert s.world.expert is None
  assert host_env.demonstrated(s.config, s.world).expert
  s = build.experiment(changed(**sizes, compaction__summary='none'))
  assert host_env.demonstrated(s.config, s.world).expert is None


@pytest.mark.parametrize(
  ('changes', 'sentence'),
  [
    (dict(edits__arm='moon'), 'edits.arm moon'),
    (dict(edits__calls='morse'), 'edits.calls morse'),
    (dict(edits__most=0), 'edits.most 0'),
    (dict(rollout__window=2), 'rollout.window 2'),
    (dict(rollout__null_observation='-'), 'rollout.null_observation'),
    (dict(sft__store='mine'), 'sft.store mine'),
    (dict(prefix='random_prefix'), 'prefix random_prefix'),
  ],
)
def test_edits_that_cannot_be(changes, sentence):
  with errors.raises(ValueError, sentence):
    validate.config(changed(memact_dcpo, **changes))


def test_an_edited_conversation_holds_its_first_turn(tmp_path):
  sizes = dict(data=str(tmp_path), env__train=8, env__test=4)
  with errors.raises(ValueError, 'rollout.context 109 110'):
    build.experiment(changed(memact_dcpo, rollout__context=109, **sizes))
  s = build.experiment(changed(memact_dcpo, rollout__context=110, **sizes))
  assert s.capacity.row == 5 * 110
  assert s.world.columns == (*s.world.family.columns, 'edit', 'read')
  assert 'term:edit' in registry.provided(s.algorithm.spec)
