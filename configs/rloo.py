"""RLOO: leave-one-out mean of the group as the baseline.

Paper: Back to Basics: Revisiting REINFORCE Style Optimization for Learning
from Human Feedback in LLMs, 2402.14740.

  A_i = R_i - 1/(n-1) sum over j != i of R_j

The paper takes a whole answer for one action and puts a KL penalty into its
reward; here, as in the libraries that agents are trained with, every token
has its own PPO ratio and there is no KL. In a batch's first sub-update the
ratio is 1 and the gradient is REINFORCE's; hp.minibatch.minibatches.n = 1 makes
it the only one.

  python -m experiments.train --config=configs/rloo.py --workdir=runs/rloo
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='rloo')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'leave_one_out')
  return base.finish(c)
