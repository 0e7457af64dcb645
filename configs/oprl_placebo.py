"""OPRL placebo: step rewards moved to other turns.

A control for Online Process Reward Learning for Agentic RL, 2509.19199, not
in the paper. The PRM learns as always, but every turn gets the reward of the
turn half a trajectory before it, in a circle:

  A(a_k) = z_group( sum r ) + alpha z_group( r_phi(a_j) ),
  j = (k - n // 2) mod n,   n the turns of the trajectory

Step rewards have the size, the spread and the sum over every trajectory that
OPRL's have, and say nothing about the turn they stand at. What OPRL does
better than this is due to knowing which turn helped.

  python -m experiments.train --config=configs/oprl_placebo.py \
    --workdir=runs/oprl_placebo
"""

from agentrl.configs import base, oprl


def get_config(arg=''):
  c = base.get_config(arg, method='oprl_placebo')
  oprl.prm(c)
  c.loss_aggregation.ppo = 'trajectory_mean'
  c.advantage = ('episode', 'step')
  c.stream.episode = ('episode_return', 'center', 'scale')
  oprl.steps(c, 'add_signal', 'move_turns')
  return base.finish(c)
