"""DPO on pairs of each batch: the best of a group against its worst.

Paper: Direct Preference Optimization: Your Language Model is Secretly a Reward
Model, 2305.18290, on the policy's own trajectories, iteration by iteration, as
in Iterative Preference Learning from Human Feedback, 2312.11456.

  L = -log sigmoid( beta (r_win - r_lose) ),  r = sum log pi - log pi_ref

over the tokens that the policy sampled in a whole trajectory, pi_ref the policy
after the warm start. Groups whose returns are all equal give no pair.

Missing: people, and a reward model in their place; the winner is the trajectory
of higher return. Pairs are those of this iteration alone.

Expect what GRPO learns from the same groups, from two of their members each:
pair accuracy (dpo/accuracy) starts at one half of what is new and success rises
more slowly. Not measured yet.

  python -m experiments.train --config=configs/dpo.py --workdir=runs/dpo
"""

from agentrl.configs import base


def preferences(c, loss='dpo', curate='opposite_ranks', **values):
  """Learns from pairs of groups, and from nothing else.

  Args:
    values: hyper-parameters of the loss
  """
  c.curate, c.loss = (curate,), (loss,)
  c.advantage = ('episode',)  # for metrics alone
  c.stream.episode = ('episode_return',)
  base.hp(c, loss, loss, **values)
  base.hp(c, 'minibatch', 'minibatches', unit='group')


def reference(c):
  """Adds the policy after the warm start, which log-ratios are to."""
  base.role(c, 'reference', kind='frozen')
  c.signal = (*c.signal, 'reference')


def get_config(arg=''):
  c = base.get_config(arg, method='dpo')
  reference(c)
  preferences(c)
  return base.finish(c)
