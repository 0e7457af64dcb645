"""Clip-higher: GRPO with a larger upper clip.

Paper: DAPO: An Open-Source LLM Reinforcement Learning System at Scale,
2503.14476, its clip and its mean over tokens alone.

  max(-A rho, -A clip(rho, 1 - 0.2, 1 + 0.28))

DAPO's resampling of groups and its penalty for overlong answers are other
pieces and not here. Expect GRPO with a slower fall of entropy.

  python -m experiments.train --config=configs/clip_higher.py \
    --workdir=runs/clip_higher
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='clip_higher')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  base.hp(c, 'ppo', 'ppo', clip_low=0.2, clip_high=0.28)
  return base.finish(c)
