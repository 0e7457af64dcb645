"""AEPO: ARPO that weighs uncertain tokens more and does not clip them.

Paper: Agentic Entropy-Balanced Policy Optimization, 2510.14545.

  A_t <- A_t (1 + 0.2 z(H_t))
  loss = ppo, but where A > 0 and rho > 1 + c its slope stays A (1 + c)

  a turn is branched from if (u + 0.2 dH) (1 - 0.05 l) > 0.5, u uniform,
  dH = H_turn - H_first turn, l how many turns right before it were, too

  of a group's n attempts m = floor(n sigmoid(0.5 (H_root - H))) + 1 begin anew,
  the others branch; H_root of first turns, H of all

u, 0.05 and 0.5 are the released code's. There l counts the rounds in which any
trajectory of the task branched, here those of the turn's own trajectory. There
a trajectory is sampled for its entropies alone; here a quarter of the group is,
which stays, and which is branched from. Entropies are in nats, there over log
V. The z-score is over the whole batch.

Expect ARPO's curve. Not measured yet.

  python -m experiments.train --config=configs/aepo.py --workdir=runs/aepo
"""

from agentrl.configs import arpo, base


def get_config(arg=''):
  c = base.get_config(arg, method='aepo')
  arpo.branched(c)
  c.collect = 'branch_above'
  base.hp(c, 'collect', 'branch_above', every=4)
  c.post = ('entropy_boost', 'leaf_weight')
  c.loss = ('ppo_balanced',)
  return base.finish(c)
