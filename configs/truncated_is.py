"""Truncated importance sampling: GRPO corrected for the sampler's mismatch.

Paper: IMPALA, 1802.01561, has the truncation; for language models whose
sampler computes other probabilities: Your Efficient RL Framework Secretly
Brings You Off-Policy RL Training (2025, a report without an arXiv number).

  A min( exp(log pi_old - log mu), 2 ),   mu: the behaviour

hp.post.truncated_is.unit = 'trajectory' takes the ratio of all its tokens.
Here sampler and learner are one program and their ratio is 1 to rounding:
without an asynchronous or outside sampler this is GRPO.

  python -m experiments.train --config=configs/truncated_is.py \
    --workdir=runs/truncated_is
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='truncated_is')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.post = ('truncated_is',)
  c.loss_aggregation.ppo = 'trajectory_mean'
  return base.finish(c)
