"""What a config must say: the nulled reading, QK-clip."""

import pytest

from agentrl import registry
from agentrl.configs import base, grpo, infopo, muonclip, spear, td_prm, toolpo
from agentrl.run import pretrained, validate


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


@pytest.mark.parametrize(
  ('field', 'value', 'why'),
  [
    ('model.qk_norm', True, 'the norms of this model undo'),
    ('lora.rank', 2, 'stay as they are under adapters'),
  ],
)
def test_qk_clip_needs_weights_that_it_can_scale(field, value, why):
  c = muonclip.get_config('tiny')
  validate.qk_clip(c, pretrained.own(c, 20))
  c.update_from_flattened_dict({field: value})
  with pytest.raises(ValueError, match=rf'policy\.qk_clip=100\.0 .* {why}'):
    validate.qk_clip(c, pretrained.own(c, 20))
  c.role.policy.qk_clip = 0.0
  validate.qk_clip(c, pretrained.own(c, 20))


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


@pytest.mark.parametrize(
  ('field', 'value', 'fix'),
  [
    ('value.heads', 0, r"'train' and role\.value\.heads to 1"),
    ('prm.heads', 1, r"'train' and role\.prm\.heads to 0"),
    ('previous.kind', 'frozen', r"'ema' and role\.previous\.heads to 0"),
  ],
)
def test_a_prm_by_temporal_differences_needs_roles_of_their_kind(
  field, value, fix
):
  c = td_prm.get_config('tiny')
  validate.config(c)
  c.role.update_from_flattened_dict({field: value})
  with pytest.raises(ValueError, match=rf"'td_prm' reads role .* {fix}"):
    validate.config(c)
