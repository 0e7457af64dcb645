"""Arms without a discount, of several studies of step rewards."""

from agentrl.lab.study.spec import method_arm

GIGPO_GAMMA_1 = method_arm(
  name='gigpo_gamma_1',
  label='gigpo, gamma 1',
  part='ablation',
  config='gigpo',
  changes={'hp.step.step_return.gamma': 1.0},
  tuned_as='gigpo',
)
GRAPH_GAMMA_1 = method_arm(
  name='graph_gamma_1',
  label='graph_return, gamma 1',
  part='ablation',
  config='graph_return',
  changes={'hp.step.graph_return.gamma': 1.0},
  tuned_as='graph_return',
)
