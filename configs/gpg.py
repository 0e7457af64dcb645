"""GPG: plain policy gradient, rescaled by the share of informative groups.

Paper: GPG: A Simple and Strong Reinforcement Learning Baseline for Model
Reasoning, 2504.02546.

  A = alpha (R - mean_group),   alpha = B / (B - M)
  loss = - A log pi, mean over tokens

M trajectories have no advantage, because their group is constant. No ratio, no
clip, no reference; one update for each batch, since nothing corrects for an
older policy. A later library counts the non-zero rewards instead of the
non-zero advantages; here it is the paper's count.

  python -m experiments.train --config=configs/gpg.py --workdir=runs/gpg
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='gpg')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale_by_nonzero')
  c.loss = ('reinforce',)
  base.hp(c, 'minibatch', 'minibatches', n=1)
  return base.finish(c)
