"""PPO: token-level critic and GAE.

Papers: Proximal Policy Optimization Algorithms, 1707.06347, with
High-Dimensional Continuous Control Using Generalized Advantage Estimation,
1506.02438.

  delta_t = r_t + gamma V_t+1 - V_t;   A_t = delta_t + gamma lambda A_t+1

over the tokens that the policy sampled; what the environment wrote is passed
over. gamma = 1 and lambda = 0.95 per token, advantages whitened. The critic is
a network of its own; its clip is wide because returns here span about ten.

  python -m experiments.train --config=configs/ppo.py --workdir=runs/ppo
"""

from agentrl.configs import base


def critic(c):
  """Sets the critic as all of PPO's variants have it."""
  base.role(c, 'value', lr=1e-3, heads=1)
  c.signal = ('value',)
  base.hp(c, 'signal', 'value', clip=2.0)


def get_config(arg=''):
  c = base.get_config(arg, method='ppo')
  critic(c)
  c.advantage = ('token',)
  c.stream.token = ('turn_reward', 'gae_tokens')
  c.post = ('whiten_tokens',)
  return base.finish(c)
