"""MaxRL: group-centred rewards divided by the group's success rate.

Paper: Maximum Likelihood Reinforcement Learning, 2602.02710.

  A = (r - mean_group) / mean_group,   0 where nobody solved the task

r is the task's own outcome, 0 or 1. Divided by the mean, successes of a group
weigh 1 together: an estimate of the gradient of log p(solved), where plain
RL follows that of p(solved). Every trajectory's tokens are summed and divided
by one constant, so that the estimate stays a sum over trajectories; the
constant is fixed when this file is read (hp.ppo.fixed.length).

  python -m experiments.train --config=configs/maxrl.py --workdir=runs/maxrl
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='maxrl')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_outcome', 'scale_by_mean', 'center')
  c.loss_aggregation.ppo = 'fixed'
  length = c.rollout.max_turns * c.rollout.max_message_tokens
  base.hp(c, 'ppo', 'fixed', length=length)
  return base.finish(c)
