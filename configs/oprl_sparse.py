"""OPRL on an environment that rewards the solution only.

Paper: Online Process Reward Learning for Agentic RL, 2509.19199. The setting
its step rewards are made for: nothing else says which turn helped. Compare
with configs/grpo.py --config.env.reward=sparse.

  A(a_t) = z_group( sum r ) + alpha z_group( beta (log phi - log old)(a_t) )

FrozenLake (:env=frozen_lake) is sparse by itself and stays as it is.

  python -m experiments.train --config=configs/oprl_sparse.py \
    --workdir=runs/oprl_sparse
"""

from agentrl.configs import oprl


def get_config(arg=''):
  c = oprl.get_config(arg)
  c.method = 'oprl_sparse'
  if c.env.name == 'sokoban':
    c.env.reward = 'sparse'
  return c
