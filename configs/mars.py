r"""MARS: self-play with returns per turn, normalized for each seat.

Paper: MARS: Reinforcing Multi-Agent Reasoning of LLMs through Self-Play in
Strategic Games, 2510.15414.

  x_k = r_k - mean_p(r),   G_k = sum over j >= k of x_j,
  A_k = whiten( G_k - mean of the different values of G in p )

p is the seat, means are over its turns in the batch; a value counts once in
the second mean, so that what is common in long games does not pull it.

Where it differs: one game, Kuhn poker, whose only reward is at the end; no
penalty for format, a message that names no legal move gives the match up
instead; rewards are not whitened before they are summed; one sub-update, and a
KL term of 0.2 to the warm-started policy, by k2.

  all seats alike   --config.hp.turns.center.by="('group',)" \
                    --config.hp.turns.center_unique.by="()"

  python -m experiments.train --config=configs/mars.py --workdir=runs/mars
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='mars', env='kuhn_poker')
  base.role(c, 'reference', kind='frozen')
  c.signal = ('reference',)
  c.advantage = ('turns',)
  c.stream.turns = ('turn_reward', 'center', 'return_to_go', 'center_unique')
  base.hp(c, 'turns', 'center', by=('agent',), unit='turn')
  c.post = ('whiten',)
  c.loss = ('ppo', 'kl_k2')
  c.coef.kl_k2 = 0.2
  c.rollout.group_size = 2  # the seats of a match
  base.hp(c, 'minibatch', 'minibatches', n=1)
  return base.finish(c)
