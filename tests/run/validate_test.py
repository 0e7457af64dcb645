"""Configs that do not fit together: readings, spans, memories."""

import pytest

from agentrl import registry
from agentrl.configs import base, grpo, infopo, spear, toolpo
from agentrl.run import validate


def test_information_needs_the_reading():
  c = infopo.get_config('tiny')
  c.rollout.null_observation = ''
  with pytest.raises(ValueError, match=r'information.*reading:nulled'):
    registry.check(base.wiring(c))


def test_one_context_must_not_hold_several_observations():
  c = infopo.get_config('tiny')
  c.rollout.window = 2
  with pytest.raises(ValueError, match=r'rollout\.window=2'):
    validate.config(c)
  c.rollout.history = 'full'
  c.micro_batch = 8
  validate.config(c)


def test_a_loss_looks_only_at_spans_that_are_marked():
  c = grpo.get_config('tiny,env=countdown')
  for span in ('thought', 'call', 'argument', 'answer', 'other'):
    c.select.ppo = {'span': span}
    validate.config(c)
  c.select.ppo.span = 'subgoal'
  with pytest.raises(
    ValueError, match=r"select\.ppo\.span='subgoal'.*'answer'"
  ):
    validate.config(c)
  c = grpo.get_config('tiny')
  c.select.ppo = {'span': 'call'}
  with pytest.raises(ValueError, match=r"'jit' of env.name='sokoban' marks"):
    validate.config(c)


def test_calls_are_credited_only_where_they_are_marked():
  c = toolpo.get_config('tiny,env=interview')
  validate.config(c)
  c.hp.action.on_span.name = 'call'
  with pytest.raises(ValueError, match=r"'on_span' needs span:call"):
    validate.config(c)


def test_only_one_memory_adds_old_trajectories():
  c = spear.get_config('tiny')
  c.memory = ('replay', 'compensation')
  with pytest.raises(ValueError, match=r'2 memories that add .* keep one'):
    validate.config(c)
  c.memory = ('replay', 'task_statistics')
  validate.config(c)
