"""ChatShopBuddy: gated rewards, and the contrasting half of each group.

Paper: ChatShopBuddy: Towards Reliable Conversational Shopping Agents via
Reinforcement Learning, 2603.06065.

  R as in chatshop.py;   A = z(R) over the half of each group that is kept

DCPO (dynamic contrastive policy optimization) samples twice as many attempts at
a task and keeps a quarter of them from the top, high R and short reasoning,
and a quarter from the bottom, low R and long reasoning: ordered by R, then by
the tokens that are neither in a call nor in an answer. Groups of one R go.
rollout.batch and rollout.group_size are what is trained on, so that a step
costs twice the sampling of chatshop.py.

Expect the score of chatshop.py with shorter reasoning, which no reward asks
for where it stands in a tie.

  python -m experiments.train --config=configs/chatshop_dcpo.py \
    --workdir=runs/chatshop_dcpo
"""

from agentrl.configs import base, chatshop


def get_config(arg=''):
  c = chatshop.get_config(arg)
  c.method = 'chatshop_dcpo'
  c.collect = 'resample_contrastive'
  return base.finish(c)
