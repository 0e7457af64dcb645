"""SAPO: a sigmoid gate on the ratio in place of the clip.

Paper: Soft Adaptive Policy Optimization, 2511.20347.

  -(4 / tau) sigmoid( tau (rho - 1) ) A,   tau = 1 if A > 0 else 1.05

The pull of a token fades with its distance from rho = 1 and never stops; it
fades faster where A < 0, whose gradient raises many other tokens. A is
GRPO's; every trajectory counts the same.

  python -m experiments.train --config=configs/sapo.py --workdir=runs/sapo
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='sapo')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.loss = ('sapo',)
  c.loss_aggregation.sapo = 'trajectory_mean'
  return base.finish(c)
