"""Step rewards from values that pass through shared states, without a model.

Not in a paper; GiGPO (2505.10978) with another step advantage.

  V(c) = mean over the turns t of cell c of [ r_t + gamma V(c(t+1)) ],
  A(a_t) = z_group( sum r ) + alpha z_group( r_t + gamma V(c(t+1)) - V(c(t)) )

A cell is a state of a group, by its observation. GiGPO's mean of a state
knows what followed its own visits; V uses every trajectory of the group that
came by a later state, so it has less noise where states recur. alpha is
coef.step, gamma, 0.95 as in GiGPO, hp.step.graph_return.gamma: at 1 credit
does not prefer short solutions. Deviations are divided by without a floor that
would hide small differences (hp.step.scale.eps).

Expect more than GRPO where states recur within a group, and GRPO exactly where
none does: look at the metric advantage/step/shared.

  python -m experiments.train --config=configs/graph_return.py \
    --workdir=runs/graph_return
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='graph_return')
  c.loss_aggregation.ppo = 'trajectory_mean'
  c.advantage = ('episode', 'step')
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.stream.step = ('graph_return', 'center', 'scale')
  base.hp(c, 'step', 'center', unit='turn')
  base.hp(c, 'step', 'scale', unit='turn', eps=1e-3)
  return base.finish(c)
