"""Shop-R1: why a shopper acts and what comes next, paid by how hard it is.

Paper: Shop-R1: Rewarding LLMs to Simulate Human Behavior in Online Shopping
via Reinforcement Learning, 2507.17842.

  R = 0.5 (format) + v(action) + 0.005 s(rationale)
  v = 0.3 (type) + 0.2 or 0.1 (attributes) + D ROUGE-L(name, text);  D = 1000
  s = mean over the rationale's tokens of KL(pi || uniform) = log V - H_t
  A = z_group( R )

The rationale is the thought before the action, tags included. Demonstrations
have the scripted shopper's own reason, in the paper one that a language model
made up afterwards. s is read from the policy as it is when the update begins;
it is a mean, so that a rationale gains nothing by its length. As printed it is
divided by V, too, which would leave nothing of it, and a KL penalty of 0.001 to
the start is added; both are left out. With D = 1000 and a division by the
deviation all other parts are mere ties within a group, and s draws entropy
down; both are the paper's.

Expect exact actions to rise above those of the warm start. Seen so far, three
seeds: from 13, 17 and 21% to 22, 24 and 27%, and with s less without +0.7
[-6.8, 8.2] points (docs/results/first_looks.md).

  python -m experiments.train --config=configs/shop_r1.py \
    --workdir=runs/shop_r1
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='shop_r1', env='shop_logs')
  if 'rationales' in c.env:
    c.env.rationales = True
    c.rollout.max_message_tokens += 24
  c.reward = ('weighted',)
  base.hp(
    c,
    'reward',
    'weighted',
    terms=('format', 'action_value'),
    weights=(0.5, 1.0),
  )
  c.signal = ('confidence',)
  c.advantage = ('episode',)
  c.stream.episode = (
    'turn_reward',
    'add_signal',
    'episode_sum',
    'center',
    'scale',
  )
  base.hp(c, 'episode', 'add_signal', name='confidence', coef=0.005)
  return base.finish(c)
