"""OPRL where the environment pays for the solution only.

Paper: Online Process Reward Learning for Agentic RL, 2509.19199. The setting
its step rewards are made for: nothing else says which turn helped. Compare
with configs/grpo.py --config.env.reward=sparse.

  A(a_t) = z_group( sum r ) + alpha z_group( beta (log phi - log old)(a_t) )

FrozenLake (:env=frozen_lake) is sparse by itself and stays as it is.

  python -m experiments.train --config=configs/oprl_sparse.py \
    --workdir=runs/oprl_sparse
"""

from configs import base


def get_config(arg=''):
  c = base.get_config(arg)
  c.method = 'oprl_sparse'
  if c.env.name == 'sokoban':
    c.env.reward = 'sparse'
  base.role(c, 'prm', lr=1e-4, clip=10.0)
  c.signal = ('implicit_prm',)
  c.advantage = ('episode', 'step')
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.stream.step = ('add_signal', 'center', 'scale')
  base.hp(c, 'step', 'center', unit='turn')
  base.hp(c, 'step', 'scale', unit='turn')
  return base.finish(c)
