"""AEPO: ARPO whose uncertain tokens weigh more and are not cut off.

Paper: Agentic Entropy-Balanced Policy Optimization, 2510.14545.

  A_t <- A_t (1 + 0.2 z(H_t))
  loss = ppo, but where A > 0 and rho > 1 + c its slope stays A (1 + c)

A turn is branched from with a probability that falls by half for each turn
right before it that was (hp.collect.branch.penalty). The paper also splits
the budget between first trajectories and branches by entropies measured
beforehand; here the split is fixed, half and half. The z-score is over the
whole batch. Expect ARPO's curve.

  python -m experiments.train --config=configs/aepo.py --workdir=runs/aepo
"""

from configs import arpo, base


def get_config(arg=''):
  c = base.get_config(arg)
  c.method = 'aepo'
  arpo.branched(c)
  base.hp(c, 'collect', 'branch', penalty=0.5)
  c.finish = ('entropy_boost', 'leaf_weight')
  c.loss = ('ppo_balanced',)
  return base.finish(c)
