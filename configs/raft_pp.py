"""RAFT++: imitates solved trajectories, with PPO's ratio and clip.

Paper: A Minimalist Approach to LLM Reasoning: from Rejection Sampling to
Reinforce, 2504.11343.

  max(-rho, -clip(rho, 1 - 0.2, 1 + 0.2)) on solved trajectories only

A = 1 where the task's score is positive (here it is 0 or 1), else the
trajectory is dropped. The released code's KL term of 1e-3 is left out. Expect
it close to GRPO early, with entropy falling faster.

  python -m experiments.train --config=configs/raft_pp.py --workdir=runs/raft_pp
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='raft_pp')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_outcome',)
  c.post = ('positive_only',)
  return base.finish(c)
