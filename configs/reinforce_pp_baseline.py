"""REINFORCE++-baseline: centred in the group, whitened over the batch.

Paper: REINFORCE++: Stabilizing Critic-Free Policy Optimization with Global
Advantage Normalization, 2501.03262.

  A_i = whiten( R_i - mean_group ), mean and deviation over all tokens

The group's own deviation is not used: a task that all but one solve is not
blown up. The paper adds a KL term to the loss, which is left out here.

  python -m experiments.train --config=configs/reinforce_pp_baseline.py \
    --workdir=runs/reinforce_pp_baseline
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='reinforce_pp_baseline')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center')
  c.post = ('whiten',)
  return base.finish(c)
