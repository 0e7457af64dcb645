"""OPRL whose PRM restarts from the policy at every iteration.

A control for Online Process Reward Learning for Agentic RL, 2509.19199, not
in the paper: what phi learned about older policies is thrown away, so a step
reward is what one update on this batch's pairs says about it.

  A(a_t) = z_group( sum r ) + alpha z_group( beta (log phi_k - log old)(a_t) ),
  phi_k = policy_k + hp.signal.restarted_prm.steps updates on this batch

  python -m experiments.train --config=configs/oprl_restart.py \
    --workdir=runs/oprl_restart
"""

from agentrl.configs import base, oprl


def get_config(arg=''):
  c = base.get_config(arg, method='oprl_restart')
  oprl.prm(c, 'restarted_prm', warmup=0)
  c.loss_aggregation.ppo = 'trajectory_mean'
  c.advantage = ('episode', 'step')
  c.stream.episode = ('episode_return', 'center', 'scale')
  oprl.steps(c)
  return base.finish(c)
