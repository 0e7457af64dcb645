"""AReaL: decoupled PPO on batches of earlier policy versions.

Paper: AReaL: A Large-Scale Asynchronous Reinforcement Learning System for
Language Reasoning, 2505.24298.

  -min(w, 2) min(rho A, clip(rho, 1 - eps, 1 + eps) A)
  rho = pi / pi_old,   w = pi_old / mu

mu, which sampled the tokens, is at most staleness.bound = 4 updates older than
pi_old, the policy before the update: the clip is around pi_old, and w corrects
for age. Advantages are GRPO's.

Departures: a batch is trained on in its order, so that age is bounded by
construction and none is dropped (docs/STALENESS.md). Weights change between
batches, so that a run repeats to the bit; the second command interrupts
messages for them, as the paper does. w is truncated at 2, where the paper caps
it without a number.

  python -m experiments.train --config=configs/areal.py:env=countdown \
    --workdir=runs/areal --config.staleness.depth=5
  python -m experiments.train --config=configs/areal.py:env=countdown \
    --workdir=runs/areal_swap --config.staleness.depth=5 \
    --config.staleness.order=latest --config.staleness.swap=token
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='areal')
  c.staleness.bound = 4
  c.staleness.anchor = 'update'
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.post = ('truncated_is',)
  c.loss_aggregation.ppo = 'trajectory_mean'
  base.hp(c, 'minibatch', 'minibatches', n=4)
  return base.finish(c)
