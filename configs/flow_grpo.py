"""Flow-GRPO: one outcome for every turn, averaged over turns per trajectory.

Paper: In-the-Flow Agentic System Optimization for Effective Planning and Tool
Use (AgentFlow), 2510.05592.

  A = (r - mean_group) / (std_group + eps), on every turn
  loss = 1/G sum_i 1/T_i sum_t 1/|a_t| sum_l ppo + coef.kl_k3 KL(pi || ref)

so that neither long messages nor long trajectories outweigh others. Clip 0.2
below and 0.3 above, KL 0.001, as in the paper. What others
than the planner say is the environment's answer: never trained on. agentflow is
this with the paper's system around it.

  python -m experiments.train --config=configs/flow_grpo.py \
    --workdir=runs/flow_grpo
"""

from agentrl.configs import base


def broadcast(c):
  """Sets the paper's advantage and loss."""
  base.role(c, 'reference', kind='frozen')
  c.signal = ('reference',)
  c.advantage = ('episode',)
  c.stream.episode = ('episode_outcome', 'center', 'scale')
  c.loss = ('ppo', 'kl_k3')
  base.hp(c, 'ppo', 'ppo', clip_high=0.3)
  c.coef.kl_k3 = 1e-3
  c.loss_aggregation.ppo = c.loss_aggregation.kl_k3 = 'trajectory_turn_mean'


def get_config(arg=''):
  c = base.get_config(arg, method='flow_grpo')
  broadcast(c)
  return base.finish(c)
