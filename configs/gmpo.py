"""GMPO: geometric instead of arithmetic mean of token ratios.

Paper: Geometric-Mean Policy Optimization, 2507.20673.

  -A exp( mean_t d_t ),   d_t = min(log rho_t, c) if A >= 0,
                                max(log rho_t, -c) if A < 0,   c = 0.4

Outlying tokens weigh less in a geometric mean, so the clip can be wider than
PPO's. A is GRPO's; every trajectory counts the same.

  python -m experiments.train --config=configs/gmpo.py --workdir=runs/gmpo
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='gmpo')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.loss = ('gmpo',)
  c.loss_aggregation.gmpo = 'trajectory_mean'
  base.hp(c, 'gmpo', 'gmpo', clip=0.4)
  return base.finish(c)
