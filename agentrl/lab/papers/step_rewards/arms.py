"""Arms without a discount, of several studies of step rewards."""

from agentrl.lab.study.spec import method_arm

GIGPO_GAMMA_1 = method_arm(
  *('gigpo_gamma_1', 'gigpo, gamma 1', 'ablation'),
  config='gigpo',
  changes={'hp.step.step_return.gamma': 1.0},
  tuned_as='gigpo',
)
GRAPH_GAMMA_1 = method_arm(
  *('graph_gamma_1', 'graph_return, gamma 1', 'ablation'),
  config='graph_return',
  changes={'hp.step.graph_return.gamma': 1.0},
  tuned_as='graph_return',
)
