"""CISPO: clips the importance weight and keeps the gradient of every token.

Paper: MiniMax-M1: Scaling Test-Time Compute Efficiently with Lightning
Attention, 2506.13585.

  -sg[ min(rho, 1 + 0.2) ] A log pi,   averaged over all tokens

c_low = 10 is no lower bound, as the paper uses it. A is GRPO's. The first
sub-update of a batch is REINFORCE; later ones keep rare tokens that PPO's
clip would drop.

  python -m experiments.train --config=configs/cispo.py --workdir=runs/cispo
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='cispo')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.loss = ('cispo',)
  return base.finish(c)
