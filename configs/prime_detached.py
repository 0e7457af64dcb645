"""PRIME with the DPO loss of its code: trajectories against the group mean.

Paper: Process Reinforcement through Implicit Rewards, 2502.01456 (the loss is
in the released code only).

  loss = mean_i -log sigmoid( s_i (Q_i - m_i) ),   Q = beta sum_t log phi/ref

s_i = 1 for a success and m_i the mean Q of its group's worse trajectories,
s_i = -1 for a failure and m_i that of the better ones; m is not
differentiated and 0 where a group has none. All else is prime.py's.

  python -m experiments.train --config=configs/prime_detached.py \
    --workdir=runs/prime_detached
"""

from agentrl.configs import base, prime


def get_config(arg=''):
  c = prime.get_config(arg)
  c.method = 'prime_detached'
  base.hp(c, 'signal', 'implicit_prm', loss='detached')
  return c
