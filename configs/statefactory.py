"""StateFactory: what share of the goal's facts holds is a potential of turns.

Paper: Reward Prediction with Factorized World States, 2603.09400.

  phi_k = mean over goal objects of the share of their attributes that are as
          in the goal, in the state that was seen up to turn k
  r_k = phi_k - phi_{k-1} + [k is the last turn] outcome,   phi_0 = 0
  A_k = z_group( sum of r ) + r_k - mean of r_k in the group

States and goals are factored into objects, attributes and values; what was
seen last of an attribute holds. The paper has language models factor texts and
compares embeddings, within objects and attributes that were matched before;
here a grammar reads clauses of three words, and words are equal or not (judge
`goal_similarity`). The paper predicts rewards and plans by them; the update is
ours: GRPO, and beside it how much nearer the goal each turn came than the same
turn of the rest of the group. phi is not set to 0 at the end, so that half of a
goal is worth something, which is the point and a bias. The distance of such
rewards from the truth is in `agentrl.stats.epic`.

With `judged=potential` a service is asked for phi (the paper's LLM judge), and
`judged=text_similarity` compares words without factoring. Expect more success
than of the words, and than of the outcome alone within few steps:

  --config.reward="('outcome',)" --config.judge="()"

Seen so far, three seeds: +6.5 [-24.8, 37.7] points of success
(docs/results/first_looks.md).

  python -m experiments.train --config=configs/statefactory.py \
    --workdir=runs/statefactory
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(
    arg, method='statefactory', env='household', judged='goal_similarity'
  )
  c.reward = ('outcome', 'potential')
  base.hp(c, 'reward', 'potential', term=base.JUDGED, final=1.0)
  c.advantage = ('episode', 'turn')
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.stream.turn = ('turn_reward', 'center')
  base.hp(c, 'turn', 'center', by=('group', 'turn'), unit='turn')
  return base.finish(c)
