"""Lite PPO: group mean, batch deviation, no critic.

Paper: Part I: Tricks or Traps? A Deep Dive into RL for LLM Reasoning,
2508.08221.

  A = (R - mean_group) / (std_batch + eps);   loss: mean over tokens

std_batch is that of the returns over all trajectories of the batch, not of
their tokens, so that long ones do not dominate it. Dividing first and taking
the group's mean after is the same number. Plain PPO clip, no KL. A later
recipe also clips |A| at 2; here it is not clipped.

  python -m experiments.train --config=configs/lite_ppo.py \
    --workdir=runs/lite_ppo
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='lite_ppo')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'scale', 'center')
  base.hp(c, 'episode', 'scale', by=())
  return base.finish(c)
