"""OPRL (iStar): step rewards from an implicit PRM learned beside the policy.

Paper: Online Process Reward Learning for Agentic RL, 2509.19199.

  A(a_t) = A_episode + alpha A_step, each z-scored within the group of a task;
  r_step = beta (log phi - log old)(a_t), phi trained on solved-failed pairs.

alpha is coef.step, beta hp.signal.implicit_prm.beta. Five defaults differ from
the paper; with the first four as in the paper, the default task learned less:

- alpha is 0.3, not 1: the step advantage is noise until phi has learned, and at
  full weight it kept the policy's entropy high.
- phi has the learning rate of the policy (both decay to 0 over the run). A
  slower phi lags behind and rewards undoing what the policy has learned: its
  pair accuracy on the next batch falls below one half.
- A trajectory's score in the pair loss is the mean over its turns, as in the
  released code (trajectory='sum' is the paper's): a sum depends on length.
- The standard deviation that step rewards are divided by has a floor
  (hp.step.scale.eps), so that an untrained phi is not amplified.
- phi scores a batch before it learns from it, as in the released code; the
  paper's text has hp.signal.implicit_prm.order = 'update_then_score'.

Every trajectory has the same weight in the loss: weighted by tokens, longer
failures outweigh the solutions of their group, and entropy rises.

  python -m experiments.train --config=configs/oprl.py --workdir=runs/oprl
"""

from agentrl.configs import base

ALPHA = 0.3  # weight of the step advantage; the episode's is 1


def prm(c, signal='implicit_prm', **role):
  """Adds the implicit PRM, as every variant of OPRL has it."""
  base.role(c, 'prm', **{'lr': 6e-4, 'max_grad_norm': 10.0, **role})
  c.signal = (signal,)
  base.hp(c, 'signal', signal, trajectory='mean')


def steps(c, *source):
  """Adds step rewards, by default the PRM's, z-scored over a group's turns."""
  c.stream.step = (*(source or ('add_signal',)), 'center', 'scale')
  base.hp(c, 'step', 'center', unit='turn')
  base.hp(c, 'step', 'scale', unit='turn', eps=0.05)
  c.coef.step = ALPHA


def get_config(arg=''):
  c = base.get_config(arg, method='oprl')
  prm(c)
  c.loss_aggregation.ppo = 'trajectory_mean'
  c.advantage = ('episode', 'step')
  c.stream.episode = ('episode_return', 'center', 'scale')
  steps(c)
  return base.finish(c)
