"""GSPO: one ratio per trajectory, the geometric mean of its token ratios.

Paper: Group Sequence Policy Optimization, 2507.18071.

  s = exp( mean_t log rho_t );   max(-A s, -A clip(s, 1 - c_low, 1 + c_high))

A is GRPO's, |y| counts the tokens that the policy sampled in all turns. The
paper's widths, 3e-4 and 4e-4, are for answers of thousands of tokens, over
which noise averages out; for the dozen tokens that a trajectory has here they
would clip nearly all of a second sub-update, so they are a hundred times as
wide. Expect GRPO's curve, with fewer jumps where batches are used for long.

  python -m experiments.train --config=configs/gspo.py --workdir=runs/gspo
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='gspo')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.loss = ('gspo',)
  c.loss_aggregation.gspo = 'trajectory_mean'
  base.hp(c, 'gspo', 'gspo', clip_low=0.03, clip_high=0.04)
  return base.finish(c)
