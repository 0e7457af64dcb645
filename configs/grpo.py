"""GRPO: outcomes z-scored within the group of a task, PPO clip.

Paper: DeepSeekMath, 2402.03300. Of G attempts at one task with returns R_i,

  A_i    = (R_i - mean(R)) / (std(R) + eps)    links `center` and `scale`;
           std over G - 1, eps 1e-6, 0 where all R are equal
  rho_it = pi(a_it | ...) / pi_old(a_it | ...)
  l_it   = max(-A_i rho_it, -A_i clip(rho_it, 1 - low, 1 + high))
  L_i    = mean of l_it over the tokens that i sampled
  loss   = mean of L_i over the trajectories    'trajectory_mean'

examples/minimal_grpo.py is all of this in one file, from the network to the
loop, without a config.

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
