"""Dr. GRPO: GRPO without the two divisions that bias it.

Paper: Understanding R1-Zero-Like Training: A Critical Perspective, 2503.20783.

  A = R - mean_group;   loss = sum over tokens / (trajectories * L)

L is a constant, here the most tokens that a trajectory may sample, so neither
long failures nor tasks of small deviation are favoured. L is fixed when this
file is read: another rollout.max_turns or rollout.max_message_tokens leaves it
as it is (hp.ppo.fixed.length). As the released code, but without its optional
KL.

  python -m experiments.train --config=configs/dr_grpo.py --workdir=runs/dr_grpo
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='dr_grpo')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center')
  c.loss_aggregation.ppo = 'fixed'
  length = c.rollout.max_turns * c.rollout.max_message_tokens
  base.hp(c, 'ppo', 'fixed', length=length)
  return base.finish(c)
