"""IcePop: masks tokens on which sampler and learner disagree.

Paper: Every Step Evolves: Scaling Reinforcement Learning for Trillion-Scale
Thinking Model (Ring-1T), 2510.18855.

  A r where 0.5 <= r <= 5, else 0;   r = exp(log pi_old - log mu)

mu is the behaviour. A token left out still counts where the loss is averaged.
Here sampler and learner are one program and r = 1 to rounding: without an
asynchronous or outside sampler this is GRPO.

  python -m experiments.train --config=configs/icepop.py --workdir=runs/icepop
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='icepop')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.post = ('masked_is',)
  c.loss_aggregation.ppo = 'trajectory_mean'
  return base.finish(c)
