"""DPPO-TV: trust region in total variation instead of ratios.

Paper: Rethinking the Trust Region in LLM Reinforcement Learning, 2602.04879.

  -sg[ M min(rho, 20) ] A log pi,   rho = pi / mu,   mu: what sampled it
  M = 0 where D > 0.15 and the token moves further away, else 1
  D = |pi - mu| of the token taken

Rare tokens may change their ratio a lot, likely ones hardly may. The ratio's
denominator is the behaviour log-prob, so that what the sampler computed
differently is in the trust region, too. A is GRPO's.

  python -m experiments.train --config=configs/dppo.py --workdir=runs/dppo
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='dppo')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.loss = ('dppo_tv',)
  base.hp(c, 'dppo_tv', 'dppo_tv', threshold=0.15)
  return base.finish(c)
