"""GRPO: outcomes z-scored within the group of a task, PPO clip.

Paper: DeepSeekMath, 2402.03300. A = (R - mean_group) / (std_group + eps).

  python -m experiments.train --config=configs/grpo.py --workdir=runs/grpo
"""

from configs import base


def get_config(arg=''):
  c = base.get_config(arg)
  c.method = 'grpo'
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.reduce.ppo = 'trajectory_mean'
  return base.finish(c)
