"""Bi-level PPO: GAE over turns, then over the tokens of each turn.

Paper: VAGEN, 2510.16907 (bi-level GAE; also in RAGEN's code, 2504.20073).

  A_k over turns by gamma = 0.95, lambda = 1, V_k at the turn's last token;
  then A_k + V_k is that token's reward and A_t runs over the turn's tokens
  by gamma = lambda = 1, nothing beyond the turn

and is whitened. The released code takes non-zero rewards for the ends of
turns; here a turn without reward is one too. The critic is as in ppo.py.

  python -m experiments.train --config=configs/ppo_bilevel.py \
    --workdir=runs/ppo_bilevel
"""

from agentrl.configs import base, ppo


def get_config(arg=''):
  c = base.get_config(arg, method='ppo_bilevel')
  ppo.critic(c)
  c.advantage = ('bilevel',)
  c.stream.bilevel = ('turn_reward', 'gae_bilevel')
  c.post = ('whiten_tokens',)
  return base.finish(c)
