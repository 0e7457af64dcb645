"""HERON: a reward model of ranked factors, none of which has a weight.

Paper: Deep Reinforcement Learning from Hierarchical Preference Design,
2309.02632 (first called: from Hierarchical Weak Preference Feedback).

  compare   two attempts of a group by the first factor in which they differ by
            more than delta_m = std of that factor; delta of the first is 0
  learn     L = -log sigmoid( R(win) - R(lose) ), a Bradley-Terry model
  act       GRPO on R, in place of the environment's reward

In baskets the factors are: less that is spoilt, then more apples, then fewer
berries, as its first user ranks the baskets of one turn. Attempts, which are
sums over turns, the user may rank otherwise, since it weighs and factors do
not: six apples and two berries with a spoilt basket are worth more to it than
six berries without. Elsewhere: what the environment paid, then fewer tokens.
The order is all that is said: apples may be counted in grams
(--config.env.unit=200), and pairs stay what they are, where a weighted sum
would have to be weighted anew.

Missing: the buffer of earlier attempts, from which the paper draws pairs and
deviations; both are of this iteration. Rewards are standardised by group, in
the paper by a running mean.

Expect reward_model/pair_accuracy well above one half, less that is spoilt
first, then more apples. Not measured yet.

  python -m experiments.train --config=configs/heron.py --workdir=runs/heron
"""

from agentrl.configs import base


def learned_reward(c, signal='reward_model', **values):
  """Adds a reward model with one head, and a policy that learns from it alone.

  Args:
    values: hyper-parameters of the signal
  """
  base.role(c, 'reward', lr=1e-3, heads=1)
  c.signal = (*c.signal, signal)
  base.hp(c, 'signal', signal, **values)
  c.advantage = ('learned',)
  c.stream.learned = ('add_signal', 'center', 'scale')
  base.hp(c, 'learned', 'add_signal', name=f'{signal}.return')


def get_config(arg=''):
  c = base.get_config(arg, method='heron', env='baskets')
  factors, fewer = ('env', 'tokens'), ('tokens',)
  if c.env.name == 'baskets':
    c.env.users = 1
    factors, fewer = ('spoilt', 'apples', 'berries'), ('spoilt', 'berries')
  learned_reward(c)
  c.curate = ('ranked_factors',)
  base.hp(c, 'curate', 'ranked_factors', factors=factors, fewer=fewer)
  return base.finish(c)
