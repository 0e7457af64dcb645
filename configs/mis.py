"""Masked importance sampling: masks whole trajectories by their ratio.

Paper: MIS, as in the report When Speed Kills Stability (2025, no arXiv
number), with the geometric mask of the same authors; the setting is that of
2510.18855.

  A r where r <= 2, else 0;   r = exp( sum_t log pi_old - log mu )
  weight 0 where exp( mean_t log pi_old - log mu ) is outside [0.99, 1.001]

Tokens of a trajectory stay or go together, which has no bias towards tokens
that both sides find easy. Here sampler and learner are one program and both
ratios are 1 to rounding.

  python -m experiments.train --config=configs/mis.py --workdir=runs/mis
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='mis')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.post = ('geometric_mask', 'masked_is')
  base.hp(c, 'post', 'geometric_mask', low=0.99, high=1.001)
  base.hp(c, 'post', 'masked_is', unit='trajectory', low=0.0, high=2.0)
  c.loss_aggregation.ppo = 'trajectory_mean'
  return base.finish(c)
