"""Models that a config cannot have: QK-clip, adapters, positions."""

import pytest

from agentrl.configs import grpo, muonclip
from agentrl.run import pretrained
from agentrl.run.check import model_checks


@pytest.mark.parametrize(
  ('field', 'value', 'why'),
  [
    ('model.qk_norm', True, 'the norms of this model undo'),
    ('lora.rank', 2, 'stay as they are under adapters'),
  ],
)
def test_qk_clip_needs_weights_that_it_can_scale(field, value, why):
  c = muonclip.get_config('tiny')
  model_checks.qk_clip(c, pretrained.own(c, 20))
  c.update_from_flattened_dict({field: value})
  with pytest.raises(ValueError, match=rf'policy\.qk_clip=100\.0 .* {why}'):
    model_checks.qk_clip(c, pretrained.own(c, 20))
  c.role.policy.qk_clip = 0.0
  model_checks.qk_clip(c, pretrained.own(c, 20))


@pytest.mark.parametrize(
  ('changes', 'fix'),
  [
    ({}, 'set model.path to that checkpoint'),
    ({'model.path': 'x', 'init': 'runs/a'}, 'leave one of them empty'),
    ({'model.path': 'x'}, 'set lora.rank'),
  ],
)
def test_an_adapter_is_of_a_checkpoint(changes, fix):
  c = grpo.get_config('tiny')
  model_checks.adapter(c)
  c.update_from_flattened_dict({'lora.path': 'runs/adapter'} | changes)
  with pytest.raises(ValueError, match=f"'runs/adapter' .*{fix}"):
    model_checks.adapter(c)


def test_a_system_message_stands_in_a_template():
  c = grpo.get_config('tiny')
  model_checks.frame(c)
  c.rollout.system = 'Be brief.'
  with pytest.raises(
    ValueError, match=r"'Be brief\.' is a message in the chat"
  ):
    model_checks.frame(c)


def test_rows_end_where_positions_do():
  c = grpo.get_config('tiny')
  shape = pretrained.own(c, 20)
  model_checks.positions(shape, shape.positions)
  more = shape.positions + 1
  with pytest.raises(ValueError, match=f'a reading has {more} tokens; raise'):
    model_checks.positions(shape, more, 'a reading')


def test_a_full_history_holds_a_first_turn():
  c = grpo.get_config('tiny')
  c.rollout.update(dict(history='full', context=40))
  model_checks.room(c, 40)
  with pytest.raises(ValueError, match=r'context=40 tokens .* up to 41; set'):
    model_checks.room(c, 41)
