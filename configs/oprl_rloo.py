"""OPRL with RLOO advantages, as the released scripts train.

Paper: Online Process Reward Learning for Agentic RL, 2509.19199.

  A(a_t) = LOO_group( sum r ) + alpha LOO_group( r_phi(a_t) )

where LOO is n/(n-1) (x - mean): no division by a deviation, so step rewards
weigh as much as they are large. The step baseline is over all steps of the
group, as in the paper; oprl_parity.py has the code's.

  python -m experiments.train --config=configs/oprl_rloo.py \
    --workdir=runs/oprl_rloo
"""

from agentrl.configs import base, oprl


def get_config(arg=''):
  c = base.get_config(arg, method='oprl_rloo')
  oprl.prm(c)
  c.loss_aggregation.ppo = 'trajectory_mean'
  c.advantage = ('episode', 'step')
  c.stream.episode = ('episode_return', 'leave_one_out')
  c.stream.step = ('add_signal', 'leave_one_out')
  base.hp(c, 'step', 'leave_one_out', unit='turn')
  return base.finish(c)
