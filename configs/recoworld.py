"""RecoWorld: a recommender that is paid for the user who stays, in GRPO.

Paper: RecoWorld: Building Simulated Environments for Agentic Recommender
Systems, 2509.10397 (a blueprint: it has no equations and no numbers).

  R = turns that the user stayed / turns of a session;   A = z_group( R )

The user is simulated: a hidden taste, items that it tires of, instructions
after skips. Its words are observations and never trained on. Everything here
is our reading; rollout/regret says how far the items chosen are from the best.

Expect retention above that of the most popular items, which is what the warm
start does not know.

  python -m experiments.train --config=configs/recoworld.py \
    --workdir=runs/recoworld
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='recoworld', env='recommendation')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  return base.finish(c)
