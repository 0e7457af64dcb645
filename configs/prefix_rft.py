"""Prefix-RFT: some attempts begin with part of a demonstration.

Paper: Blending Supervised and Reinforcement Fine-Tuning with Prefix Sampling,
2507.01679.

  one of 8 members is given the first floor(u n) turns of a demonstration of n,
  u uniform on [0, h(s)], h falling by a cosine from 0.95 to 0.05
  A = z_group( sum r ), on the given tokens too; of these, only the fifth of
  largest policy entropy keep it
  L = mean of PPO's clip over given and sampled tokens

Tokens that were given are moved as if they had been sampled: their old policy
is that of the beginning of the update. Prefixes are whole turns here, and u is
uniform where the code draws from a beta distribution; the dual clip is left
out.

Expect more than GRPO where a group rarely succeeds by itself: the member with
a prefix is then its only success.

  python -m experiments.train --config=configs/prefix_rft.py \\
    --workdir=runs/prefix_rft
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='prefix_rft')
  c.prefix = 'random_prefix'
  band = dict(high=0.95, final_high=0.05, steps=max(1, c.steps))
  base.hp(c, 'prefix', 'random_prefix', share=1 / 8, unit='trajectory', **band)
  c.curate = ('train_prefix',)
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.post = ('uncertain_prefix',)
  c.loss = ('ppo_prefix',)
  return base.finish(c)
