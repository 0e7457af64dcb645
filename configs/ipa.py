"""IPA: turns as chunks; imitates positive ones, bounds the ratio of negative.

Paper: Let It Flow: Agentic Crafting on Rock and Roll (ROME), 2512.24873.

  G_k = gamma^(K - k) (R - mean_group),   gamma = 0.95
  G > 0: -G log pi;   G < 0: -sg[ min(s_k, 1) ] G log pi
  weight 0 where exp( mean_turn log pi_old - log mu ) > 5

s_k is the geometric mean of the ratio over turn k, mu the behaviour. R is the
task's score; the group's mean as baseline makes negatives of failures that
score 0 (the paper leaves the scale of R open). What is imitated has no bound
but the optimizer's clip: expect fast progress early.

Missing: attempts that begin in the middle of expert trajectories.

  python -m experiments.train --config=configs/ipa.py --workdir=runs/ipa
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='ipa')
  c.advantage = ('chunk',)
  c.stream.chunk = ('episode_outcome', 'center', 'at_last_turn', 'return_to_go')
  base.hp(c, 'chunk', 'return_to_go', gamma=0.95)
  c.post = ('geometric_mask',)
  base.hp(c, 'post', 'geometric_mask', unit='turn', low=0.0, high=5.0)
  c.loss = ('ipa',)
  return base.finish(c)
