"""Shop-R1: the next action of a shopper, paid by how hard its parts are.

Paper: Shop-R1: Rewarding LLMs to Simulate Human Behavior in Online Shopping
via Reinforcement Learning, 2507.17842.

  R = 0.5 (format) + v(action) - 0.005 (entropy of the message)
  v = 0.3 (type) + 0.2 or 0.1 (attributes) + D ROUGE-L(name, text);  D = 1000
  A = z_group( R )

The paper rewards a confident rationale by the divergence of its tokens from
the uniform distribution, log V less their entropy: of a message that is the
last term up to a constant, here summed and not averaged over tokens. With D =
1000 and a division by the deviation all other parts are mere ties within a
group, and the confidence term draws entropy down; both are the paper's.

Expect exact actions to rise above those of the warm start.

  python -m experiments.train --config=configs/shop_r1.py \
    --workdir=runs/shop_r1
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='shop_r1', env='shop_logs')
  c.reward = ('weighted',)
  base.hp(
    c,
    'reward',
    'weighted',
    terms=('format', 'action_value', 'entropy'),
    weights=(0.5, 1.0, -0.005),
  )
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  return base.finish(c)
