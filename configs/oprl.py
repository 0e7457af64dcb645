"""OPRL (iStar): step rewards from an implicit PRM learned beside the policy.

Paper: Online Process Reward Learning for Agentic RL, 2509.19199.

  A(a_t) = A_episode + alpha A_step, each z-scored within the group of a task;
  r_step = beta (log phi - log old)(a_t), phi trained on solved-failed pairs.

alpha is coef.step, beta hp.signal.implicit_prm.beta. Five defaults are not the
paper's letter; with its first four the small default task learned less:
- alpha is 0.3, not 1: the step advantage is noise as long as phi knows little,
  and at full weight it kept the policy from becoming sure of anything.
- phi learns as fast as the policy (both rates fall to 0 over the run). A slower
  one pays for undoing what the policy has learned: its pair accuracy on the
  next batch falls below one half.
- A trajectory's score in the pair loss is the mean over its turns (as in the
  released code; trajectory='sum' is the paper's): a sum is told by its length.
- The deviation that step rewards are divided by has a floor
  (hp.step.scale.eps), so that phi is not blown up before it has learned.
- phi scores a batch before it learns from it, as in the released code; the
  paper's text has hp.signal.implicit_prm.order = 'update_then_score'.
Every trajectory weighs the same in the loss: by tokens, failures that last
longer outweigh the solutions of their group, and entropy rises.

  python -m experiments.train --config=configs/oprl.py --workdir=runs/oprl
"""

from agentrl.configs import base

ALPHA = 0.3  # what a z-scored step advantage counts beside the episode's


def prm(c, signal='implicit_prm', **role):
  """The implicit PRM as all of OPRL's variants have it."""
  base.role(c, 'prm', **{'lr': 6e-4, 'clip': 10.0, **role})
  c.signal = (signal,)
  base.hp(c, 'signal', signal, trajectory='mean')


def evenly(c):
  """Every trajectory weighs the same in the policy's loss."""
  c.reduce.ppo = 'trajectory_mean'


def steps(c, *source):
  """Step rewards (the PRM's by default), z-scored over a group's turns."""
  c.stream.step = (*(source or ('add_signal',)), 'center', 'scale')
  base.hp(c, 'step', 'center', unit='turn')
  base.hp(c, 'step', 'scale', unit='turn', eps=0.05)
  c.coef.step = ALPHA


def get_config(arg=''):
  c = base.get_config(arg)
  c.method = 'oprl'
  prm(c)
  evenly(c)
  c.advantage = ('episode', 'step')
  c.stream.episode = ('episode_return', 'center', 'scale')
  steps(c)
  return base.finish(c)
