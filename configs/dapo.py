"""DAPO: clip-higher, dynamic sampling, token-level loss, overlong penalty.

Paper: DAPO: An Open-Source LLM Reinforcement Learning System at Scale,
2503.14476.

  A = (R - mean_group) / (std_group + eps);   clip 0.2 below, 0.28 above
  loss: mean over tokens, no KL

Dynamic sampling: hp.collect.dynamic_sampling.times as many tasks are tried,
and the first groups are kept that are neither all solved nor all failed. The
paper samples until the batch is full; here the rest is filled at weight 0.
rollout/success is then that of what was kept: the held-out success tells.
Overlong shaping: up to -1 over the last quarter of the tokens that a trajectory
may sample (hp.reward.overlong; fixed when this file is read).

  python -m experiments.train --config=configs/dapo.py --workdir=runs/dapo
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='dapo')
  c.collect = 'dynamic_sampling'
  c.reward = ('env', 'overlong')
  limit = c.rollout.max_turns * c.rollout.max_message_tokens
  base.hp(c, 'reward', 'overlong', limit=limit, margin=limit // 4)
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  base.hp(c, 'ppo', 'ppo', clip_high=0.28)
  return base.finish(c)
