"""OPRL (iStar): step rewards from an implicit PRM learned beside the policy.

Paper: Online Process Reward Learning for Agentic RL, 2509.19199.

  A(a_t) = A_episode + alpha A_step, each z-scored within the group of a task;
  r_step = beta (log phi - log old)(a_t), phi trained on solved-failed pairs.

alpha is coef.step, beta hp.signal.implicit_prm.beta.

  python -m experiments.train --config=configs/oprl.py --workdir=runs/oprl
"""

from configs import base


def get_config(arg=''):
  c = base.get_config(arg)
  c.method = 'oprl'
  base.role(c, 'prm', lr=1e-4, clip=10.0)
  c.signal = ('implicit_prm',)
  c.advantage = ('episode', 'step')
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.stream.step = ('add_signal', 'center', 'scale')
  base.hp(c, 'step', 'center', unit='turn')
  base.hp(c, 'step', 'scale', unit='turn')
  return base.finish(c)
