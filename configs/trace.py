"""TRACE: gives rollouts to tasks and turns whose outcomes promise to be mixed.

Paper: TRACE: A Unified Rollout Budget Allocation Framework for Efficient
Agentic Reinforcement Learning, 2606.11119.

  P(mixed; u, n) = 1 - p(u)^n - (1 - p(u))^n      of n leaves behind anchor u,
  a task or a turn of it; the next attempt goes where it rises the most
  A = z_root(R) + sum of z_u(R) over the anchors u that a turn lies behind

p is predicted for tasks and turns alike, from leaves seen before: by a logistic
regression of a group's outcomes, those of its leaves that met the same state,
the turn's number and the rise of its entropy, fitted anew in each batch. We
know the paper by its abstract: the features, and that local and root advantages
are summed, are our reading. A quarter of the attempts is sampled first, all
others are given out at once.

Expect GRPO's curve, and fewer groups without contrast than it has
(collect/equal_groups). Not measured yet.

  python -m experiments.train --config=configs/trace.py --workdir=runs/trace
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='trace')
  c.collect = 'branch_mixed'
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'split_zscores', 'average')
  c.post = ('leaf_weight',)
  return base.finish(c)
