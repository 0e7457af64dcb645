"""Configs that do not fit together: readings, spans, memories."""

import math

import pytest

from agentrl import registry
from agentrl.configs import base, cm2, grpo, infopo, spear, toolpo
from agentrl.configs import config as config_lib
from agentrl.run import config_file
from agentrl.run.check import validate
from tests import errors


def test_information_needs_the_reading():
  c = infopo.get_config('tiny')
  c.rollout.null_observation = ''
  with errors.raises(ValueError, 'reading:nulled'):
    registry.check(base.wiring(c))


def test_one_context_must_not_hold_several_observations():
  c = infopo.get_config('tiny')
  c.rollout.window = 2
  with errors.raises(ValueError, 'rollout.window 2'):
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
  with errors.raises(ValueError, 'select.ppo.span subgoal answer'):
    validate.config(c)
  c = grpo.get_config('tiny')
  c.select.ppo = {'span': 'call'}
  with errors.raises(ValueError, 'jit env.name sokoban'):
    validate.config(c)


def test_calls_are_credited_only_where_they_are_marked():
  c = toolpo.get_config('tiny,env=interview')
  validate.config(c)
  c.hp.action.on_span.name = 'call'
  with errors.raises(ValueError, 'on_span span:call'):
    validate.config(c)


def test_only_one_memory_adds_old_trajectories():
  c = spear.get_config('tiny')
  c.memory = ('replay', 'compensation')
  with errors.raises(ValueError, '2'):
    validate.config(c)
  c.memory = ('replay', 'task_statistics')
  validate.config(c)


ODD = (
  *('', 'x', '../x', 'x' * 3000, 'é\u2028', '\ud83d', '\0'),
  *(-1, 0, 1.5, True, None, [], {}, [[]], ('a', 'a')),
  *(2**31 - 1, 2**31 - 32, 2**63, 1e308, math.nan, math.inf),
)
PATHS = sorted(x for x in config_lib.declared() if '*' not in x)


@pytest.mark.parametrize('i', range(0, len(PATHS)))
def test_every_value_of_every_field_is_fit_or_refused_by_its_name(i):
  """Each field with some of the values; all are tried over the fields."""
  path = PATHS[i]
  for value in ODD[i % 4 :: 4]:
    c = grpo.get_config('tiny')
    try:
      config_file.change(c, {path: value})
      validate.config(c)
      why = ''
    except ValueError as error:
      why = str(error)
    assert len(why) < 1000, (path, value)
    assert '\n' not in why, (path, value)


@pytest.mark.parametrize(
  'path',
  [
    *('rollout.batch', 'rollout.max_turns', 'rollout.max_message_tokens'),
    *('rollout.slots', 'sft.batch', 'model.width', 'model.mlp'),
    *('model.heads', 'model.positions', 'env.train'),
  ],
)
def test_sizes_that_no_machine_has_are_refused(path):
  c = grpo.get_config('tiny')
  c.micro_batch = 1
  config_file.change(c, {path: 2**31 - 32})
  with errors.raises(ValueError, path):
    validate.config(c)


@pytest.mark.parametrize('path', base._SLOTS)
@pytest.mark.parametrize('value', [None, 1, True, ['a', 'a'], [[]], {}])
def test_a_slot_that_names_no_pieces_is_refused_when_it_is_filled(path, value):
  c = grpo.get_config('tiny')
  with c.ignore_type():
    c.update_from_flattened_dict({path: value})
  with errors.raises(ValueError, path):
    base.fill(c)


@pytest.mark.parametrize('role', [{}, {'policy': {}}, {'policy': 1}, 1, 'x'])
def test_roles_need_a_policy(role):
  c = grpo.get_config('tiny')
  with c.ignore_type(), c.unlocked():
    c.role = role
  with pytest.raises(ValueError):
    base.fill(c)


@pytest.mark.parametrize('size', [2, 3, 4])
def test_a_batch_is_whole_groups(size):
  c = grpo.get_config('tiny,env=countdown')
  c.rollout.batch = c.rollout.slots = c.micro_batch = c.sft.batch = 8
  c.rollout.group_size = size
  if 8 % size:
    with errors.raises(ValueError, f'batch 8 group_size {size} 9'):
      validate.config(c)
  else:
    validate.config(c)


def test_a_group_may_have_just_the_members_that_a_link_requires():
  c = cm2.get_config('tiny')
  size = c.rollout.group_size
  for least in (size, size + 1):
    c.hp.turn.require_members.least = least
    if least == size:
      validate.config(c)
    else:
      with pytest.raises(ValueError):
        validate.config(c)


def test_only_axes_that_split_rows_are_named():
  c = grpo.get_config('tiny')
  c.mesh.fsdp, c.micro_batch = 2, 31
  with errors.raises(ValueError, 'micro_batch 31 2 mesh.fsdp=2') as caught:
    validate.config(c)
  assert 'mesh.data' not in str(caught.value)
