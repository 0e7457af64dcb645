"""PRIME with the best-of-n loss of its code: detached, weighted by rank.

Paper: Process Reinforcement through Implicit Rewards, 2502.01456 (the loss is
in the released code only).

  weight_i = n (share of the group whose outcome is no better)^(n-1)

times the loss of prime_detached.py, so that the PRM learns most from what
best-of-n would choose. The code sums over the batch, here it is the mean over
trajectories. hp.signal.implicit_prm.loss=bon_score ranks by Q itself.

  python -m experiments.train --config=configs/prime_bon.py \
    --workdir=runs/prime_bon
"""

from agentrl.configs import base, prime


def get_config(arg=''):
  c = prime.get_config(arg)
  c.method = 'prime_bon'
  base.hp(c, 'signal', 'implicit_prm', loss='bon_outcome')
  return c
