"""OPRL (iStar): step rewards from an implicit PRM learned beside the policy.

Paper: Online Process Reward Learning for Agentic RL, 2509.19199.

  A(a_t) = A_episode + alpha A_step, each z-scored within the group of a task;
  r_step = beta (log phi - log old)(a_t), phi trained on solved-failed pairs.

alpha is coef.step, beta hp.signal.implicit_prm.beta. Three defaults are not the
paper's letter. A trajectory's score in the pair loss is the mean over its turns
(the released code's; trajectory='sum' is the paper's): where failures last
longer, a sum is told apart by its length alone. And the deviation that step
rewards are divided by has a floor (hp.step.scale.eps): while phi has learned
little, what it says is noise, which a z-score would blow up to full size.
And every trajectory weighs the same in the loss: by tokens, failures that last
longer outweigh the solutions of their group, and the policy unlearns whatever
it samples (its entropy rises).

  python -m experiments.train --config=configs/oprl.py --workdir=runs/oprl
"""

from configs import base


def prm(c, signal='implicit_prm', **role):
  """The implicit PRM as all of OPRL's variants have it."""
  base.role(c, 'prm', **{'lr': 1e-4, 'clip': 10.0, **role})
  c.signal = (signal,)
  base.hp(c, 'signal', signal, trajectory='mean')


def evenly(c):
  """Every trajectory weighs the same in the policy's loss."""
  c.reduce.ppo = 'trajectory_mean'


def steps(c):
  """The step rewards, z-scored over all turns of a group."""
  c.stream.step = ('add_signal', 'center', 'scale')
  base.hp(c, 'step', 'center', unit='turn')
  base.hp(c, 'step', 'scale', unit='turn', eps=0.05)


def get_config(arg=''):
  c = base.get_config(arg)
  c.method = 'oprl'
  prm(c)
  evenly(c)
  c.advantage = ('episode', 'step')
  c.stream.episode = ('episode_return', 'center', 'scale')
  steps(c)
  return base.finish(c)
