"""OPO: on-policy steps with the minimum-variance reward baseline.

Paper: On-Policy RL with Optimal Reward Baseline, 2505.23585.

  A = R - sum_j l_j R_j / sum_j l_j   over the group, l_j sampled tokens

The squared norm of a trajectory's gradient is taken to grow with its length,
so long ones count more in the mean. Exactly on-policy as in the paper: one
update for each batch, no KL term, no entropy bonus, no division by a
deviation. The ratio is then 1, and PPO's clip never acts.

  python -m experiments.train --config=configs/opo.py --workdir=runs/opo
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='opo')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center')
  base.hp(c, 'episode', 'center', unit='token')
  base.hp(c, 'minibatch', 'minibatches', n=1)
  return base.finish(c)
