"""Clip-Cov: GRPO without the few tokens of highest covariance.

Paper: The Entropy Mechanism of Reinforcement Learning for Reasoning Language
Models, 2505.22617.

  cov_t = (A_t - mean A) (log pi_t - mean log pi)
  loss_t = ppo_t, but 0 for a random share of the tokens with cov_t in (1, 5)

Paper and code spare 0.0002 of the tokens; of the few thousand of a batch here
that is none, so hp.clip_cov.clip_cov.fraction is 0.02. The covariance is over
the whole batch and not over a sub-update's part of it. Expect GRPO's curve,
and rollout/entropy to stay higher.

  python -m experiments.train --config=configs/clip_cov.py \
    --workdir=runs/clip_cov
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='clip_cov')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.loss = ('clip_cov',)
  base.hp(c, 'clip_cov', 'clip_cov', fraction=0.02)
  return base.finish(c)
