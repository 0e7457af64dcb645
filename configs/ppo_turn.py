"""Turn-level PPO: one value and one advantage per message.

Paper: VAGEN, 2510.16907, and RAGEN, 2504.20073, compare it with token GAE.

  delta_k = r_k + gamma V_k+1 - V_k;   A_k = delta_k + gamma lambda A_k+1

V_k is the value before the turn's first token, where alone it is regressed;
all tokens of the turn share A_k, whitened over turns. gamma = 1 and lambda =
0.95 per turn. The critic is as in ppo.py.

  python -m experiments.train --config=configs/ppo_turn.py \
    --workdir=runs/ppo_turn
"""

from agentrl.configs import base, ppo


def get_config(arg=''):
  c = base.get_config(arg, method='ppo_turn')
  ppo.critic(c)
  c.advantage = ('turn',)
  c.stream.turn = ('turn_reward', 'gae_turns')
  c.post = ('whiten',)
  base.hp(c, 'post', 'whiten', unit='turn')
  return base.finish(c)
