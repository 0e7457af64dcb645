"""GRPO: outcomes z-scored within the group of a task, PPO clip.

Paper: DeepSeekMath, 2402.03300. A = (R - mean_group) / (std_group + eps):
the links `center` and `scale` of agentrl/advantage/normalize.py.

Every trajectory weighs the same in the loss, as in the paper. Its KL term (0.04
of k3 to a frozen reference) is left out: see flow_grpo.py for one.

  python -m experiments.train --config=configs/grpo.py --workdir=runs/grpo
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='grpo')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.loss_aggregation.ppo = 'trajectory_mean'
  return base.finish(c)
