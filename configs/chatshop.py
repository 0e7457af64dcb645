"""ChatShopBuddy's gated rewards: what is wrong is not paid for being short.

Paper: ChatShopBuddy: Towards Reliable Conversational Shopping Agents via
Reinforcement Learning, 2603.06065 (its rewards; chatshop_dcpo.py has its
contrastive selection, too).

  R = w1 f + 1[f] (w2 c + 1[c >= 0.9] w3 e);   A = z_group( R )

f says that every message was understood, c is the score of what was bought, e
what is left of 60 tokens: each level pays only if the one before it holds, but
a graded c below 0.9 earns w2 c, where the paper's gate pays nothing. No
constants were found. Look at the terms of a batch first: a gate that nobody
passes is a plateau.

Missing: the paper's judge of persuasiveness between c and e, which would be a
term more of hp.reward.lexicographic.terms.

Expect the score of a weighted sum, with shorter trajectories.

  python -m experiments.train --config=configs/chatshop.py \
    --workdir=runs/chatshop
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='chatshop', env='shop')
  c.reward = ('lexicographic',)
  base.hp(
    c,
    'reward',
    'lexicographic',
    terms=('invalid', 'outcome', 'tokens'),
    scales=(-1.0, 1.0, -1 / 60),
    thresholds=(1.0, 0.9),
    weights=(0.6, 0.25, 0.1),
  )
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  return base.finish(c)
