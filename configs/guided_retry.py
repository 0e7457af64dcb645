"""Guided retries: a group that failed is attempted again, with a beginning.

After Agent-RLVR: Training Software Engineering Agents via Guidance and
Environment Rewards, 2506.11425, whose guidance is another.

  attempts without guidance; where a whole group failed, attempts that begin
  with the first floor(u n) turns of a demonstration, u uniform on [0, 1)
  A = z_group( sum r )

Guidance here is a beginning that is played for the policy, one for a group,
and is not trained on. In the paper it is advice in the prompt, written by a
model that sees the tests; it is taken out of the context before training, which
is offline and on pairs of guided successes and failures.

Expect gains on tasks that are never solved at first, and GRPO elsewhere; failed
groups cost twice the attempts.

  python -m experiments.train --config=configs/guided_retry.py \\
    --workdir=runs/guided_retry
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='guided_retry')
  c.prefix = 'random_prefix'
  c.collect = 'guided_retry'
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.loss_aggregation.ppo = 'trajectory_mean'
  return base.finish(c)
