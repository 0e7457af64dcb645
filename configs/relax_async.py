"""Relax: GRPO with one number for how old a batch may be.

Paper: Relax: An Asynchronous Reinforcement Learning Engine for Omni-Modal
Post-Training at Scale, 2604.11554.

  batch n is sampled by version n - S;   S = 0 is GRPO
  -min(rho A, clip(rho, 1 - eps, 1 + eps) A),   rho = pi / mu

S is staleness.bound, here 1; mu is the policy that sampled. Batches are
collected beside the updates where that pays: docs/STALENESS.md.

Departures: the paper's services run on machines of their own and share a data
bus; here they are threads of one process. Its replay of expert routes is for
samplers whose routes differ from the learner's, which they do not here.

  python -m experiments.train --config=configs/relax_async.py:env=countdown \
    --workdir=runs/relax
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='relax_async')
  c.staleness.bound = 1
  c.staleness.anchor = 'behaviour'
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.loss_aggregation.ppo = 'trajectory_mean'
  return base.finish(c)
