"""Models that a config cannot have: QK-clip, adapters, positions."""

import pytest

from agentrl.configs import grpo, muonclip
from agentrl.run import pretrained
from agentrl.run.check import model_checks
from tests import errors


@pytest.mark.parametrize(
  ('field', 'value', 'why'),
  [('model.qk_norm', True, 'model'), ('lora.rank', 2, '')],
)
def test_qk_clip_needs_weights_that_it_can_scale(field, value, why):
  c = muonclip.get_config('tiny')
  model_checks.qk_clip(c, pretrained.own(c, 20))
  c.update_from_flattened_dict({field: value})
  with errors.raises(ValueError, f'policy.qk_clip 100.0 {why}'):
    model_checks.qk_clip(c, pretrained.own(c, 20))
  c.role.policy.qk_clip = 0.0
  model_checks.qk_clip(c, pretrained.own(c, 20))


@pytest.mark.parametrize(
  ('changes', 'fix'),
  [
    ({}, 'model.path'),
    ({'model.path': 'x', 'init': 'runs/a'}, ''),
    ({'model.path': 'x'}, 'lora.rank'),
  ],
)
def test_an_adapter_is_of_a_checkpoint(changes, fix):
  c = grpo.get_config('tiny')
  model_checks.adapter(c)
  c.update_from_flattened_dict({'lora.path': 'runs/adapter'} | changes)
  with errors.raises(ValueError, f'runs/adapter {fix}'):
    model_checks.adapter(c)


def test_a_system_message_stands_in_a_template():
  c = grpo.get_config('tiny')
  model_checks.frame(c)
  c.rollout.system = 'Be brief.'
  with errors.raises(ValueError, 'Be brief'):
    model_checks.frame(c)


def test_rows_end_where_positions_do():
  c = grpo.get_config('tiny')
  shape = pretrained.own(c, 20)
  model_checks.positions(shape, shape.positions)
  more = shape.positions + 1
  with errors.raises(ValueError, f'{more}'):
    model_checks.positions(shape, more, 'a reading')


def test_a_full_history_holds_a_first_turn():
  c = grpo.get_config('tiny')
  c.rollout.update(dict(history='full', context=40))
  model_checks.room(c, 40)
  with errors.raises(ValueError, 'context 40 41'):
    model_checks.room(c, 41)
