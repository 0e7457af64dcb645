"""ReMax: the reward of the greedy answer is the baseline.

Paper: ReMax: A Simple, Effective, and Efficient Reinforcement Learning Method
for Aligning Large Language Models, 2310.10505.

  A = R - R_greedy;   loss = - A log pi

R_greedy is the return of an attempt at the same task at temperature 0, made
beside every attempt and never trained on. No group: each task is tried once
a step, so that a batch has as many tasks as trajectories, and costs twice the
sampling. One update for each batch; tokens of a trajectory are summed, over
one constant (hp.reinforce.fixed.length, fixed when this file is read). The KL
penalty in the paper's reward is left out.

  python -m experiments.train --config=configs/remax.py --workdir=runs/remax
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='remax')
  c.rollout.group_size = 1
  c.collect = 'greedy_companion'
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'add_term')
  base.hp(c, 'episode', 'add_term', name='greedy_return', coef=-1.0)
  c.loss = ('reinforce',)
  c.loss_aggregation.reinforce = 'fixed'
  length = c.rollout.max_turns * c.rollout.max_message_tokens
  base.hp(c, 'reinforce', 'fixed', length=length)
  base.hp(c, 'minibatch', 'minibatches', n=1)
  return base.finish(c)
