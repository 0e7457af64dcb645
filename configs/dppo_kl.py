"""DPPO-KL: trust region in the binary KL divergence instead of ratios.

Paper: Rethinking the Trust Region in LLM Reinforcement Learning, 2602.04879.

  -sg[ M min(rho, 20) ] A log pi,   rho = pi / mu,   mu: what sampled it
  M = 0 where D > 0.05 and the token moves further away, else 1
  D = mu log(mu / pi) + (1 - mu) log((1 - mu) / (1 - pi)), nats

As configs/dppo.py otherwise: the binary KL grows faster where a likely token
becomes rare.

  python -m experiments.train --config=configs/dppo_kl.py --workdir=runs/dppo_kl
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='dppo_kl')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.loss = ('dppo_kl',)
  base.hp(c, 'dppo_kl', 'dppo_kl', threshold=0.05)
  return base.finish(c)
