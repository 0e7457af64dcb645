"""OPRL with the true step rewards in place of the PRM's.

A control for Online Process Reward Learning for Agentic RL, 2509.19199, not
in the paper. Only the policy is learned; the step reward is the turn's true
progress towards the solution, from the environment's solver:

  A(a_k) = z_group( sum r ) + alpha z_group( V(s_k+1) - V(s_k) )

V is the environment's (`progress` column): 0.9^distance where the solver
counts moves. It values the turn under the best policy, not the learner's. The
gap to OPRL is what a better PRM could still gain.

  python -m experiments.train --config=configs/oprl_truth.py \
    --workdir=runs/oprl_truth
"""

from agentrl.configs import base, oprl


def get_config(arg=''):
  c = base.get_config(arg, method='oprl_truth')
  c.loss_aggregation.ppo = 'trajectory_mean'
  c.advantage = ('episode', 'step')
  c.stream.episode = ('episode_return', 'center', 'scale')
  oprl.steps(c, 'add_term')
  base.hp(c, 'step', 'add_term', name='progress')
  return base.finish(c)
