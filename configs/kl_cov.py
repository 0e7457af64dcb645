"""KL-Cov: GRPO with a KL penalty on the tokens of highest covariance.

Paper: The Entropy Mechanism of Reinforcement Learning for Reasoning Language
Models, 2505.22617.

  cov_t = (A_t - mean A) (log pi_t - mean log pi)
  loss_t = -A_t rho_t, + |log rho_t| on the share of tokens of largest cov_t

There is no clipping, as in paper and code. They hold 0.0002 to 0.002 of the
tokens; of the few thousand of a batch here that is next to none, so
hp.kl_cov.kl_cov.fraction is 0.02. The covariance is over the whole batch and
not over a sub-update's part of it. Expect GRPO's curve, and rollout/entropy
to stay higher.

  python -m experiments.train --config=configs/kl_cov.py --workdir=runs/kl_cov
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='kl_cov')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.loss = ('kl_cov',)
  base.hp(c, 'kl_cov', 'kl_cov', fraction=0.02)
  return base.finish(c)
