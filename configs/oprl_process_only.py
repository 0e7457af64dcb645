"""OPRL without the episode advantage: learned step rewards only.

Paper: Online Process Reward Learning for Agentic RL, 2509.19199; the released
code has it as a flag.

  A(a_t) = z_group( r_phi(a_t) ) over all steps of the group

Outcomes reach the policy through the PRM's training only. In the first
iteration phi is the policy, all step rewards are zero, and nothing moves it.

  python -m experiments.train --config=configs/oprl_process_only.py \
    --workdir=runs/oprl_process_only
"""

from agentrl.configs import base, oprl


def get_config(arg=''):
  c = base.get_config(arg, method='oprl_process_only')
  oprl.prm(c)
  c.loss_aggregation.ppo = 'trajectory_mean'
  c.advantage = ('step',)
  oprl.steps(c)
  return base.finish(c)
