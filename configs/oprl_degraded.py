"""OPRL with a PRM of known quality: the truth with an error planted in it.

A control for Online Process Reward Learning for Agentic RL, 2509.19199, not
in the paper. Nothing is learned beside the policy; the step reward of a turn
is what the environment's solver knows of it, mixed with an error:

  x = ρ z( V(s_k+1) - V(s_k) ) + sqrt(1 - ρ²) z(e)

ρ is hp.signal.degraded_truth.correlation, the kind of error
hp.signal.degraded_truth.error: 'white' is drawn afresh, 'state_action' is a
fixed function of both, as that of a network nearly is. How good a PRM has to
be can be read off a curve over ρ (configs/studies/dose.py).

  python -m experiments.train --config=configs/oprl_degraded.py \
    --workdir=runs/oprl_degraded
"""

from agentrl.configs import base, oprl
from agentrl.lab.papers.dose import degraded_truth  # noqa: F401  registers it


def get_config(arg=''):
  c = base.get_config(arg, method='oprl_degraded')
  c.loss_aggregation.ppo = 'trajectory_mean'
  c.advantage = ('episode', 'step')
  c.signal = ('degraded_truth',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  oprl.steps(c)
  base.hp(c, 'step', 'add_signal', name='degraded_truth')
  return base.finish(c)
