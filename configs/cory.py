"""CORY: a policy and its twin answer in turn, for one reward, and swap seats.

Paper: Coevolving with the Other You: Fine-Tuning LLM with Sequential
Cooperative Multi-Agent Reinforcement Learning, 2410.06101.

  y_1 ~ pi_1(. | q),   y_2 ~ pi_2(. | q, y_1),   R = r(q, y_1) + r(q, y_2)

The pioneer answers, the observer reads the question and that answer, and both
get R. Each learns by PPO with a penalty on its KL to where both began. Every
five updates they exchange seats; parameters and optimizer go along, where the
released code begins with a fresh optimizer. Held-out tasks are played with the
policy as the pioneer.

Where it differs: one critic reads both seats, which see different prompts; the
KL is a term of the loss; sums that a small model learns, in place of reviews
and grade-school problems.

  no exchange       --config.rollout.swap_seats=0

  python -m experiments.train --config=configs/cory.py --workdir=runs/cory
"""

from agentrl.configs import base, ppo, pretrained


def get_config(arg=''):
  c = base.get_config(arg, method='cory', env='pioneer_observer')
  base.role(c, 'twin', lr=pretrained.SCRATCH_LR)
  c.rollout.seats = ('policy', 'twin')
  c.rollout.swap_seats = 5
  ppo.critic(c)
  base.role(c, 'reference', kind='frozen')
  c.signal = (*c.signal, 'reference')
  c.advantage = ('token',)
  c.stream.token = ('turn_reward', 'gae_tokens')
  c.post = ('whiten_tokens',)
  c.loss = ('ppo', 'kl_k3')
  c.coef.kl_k3 = 0.05
  return base.finish(c)
