"""PARA-GRPO: GRPO on an outcome, a format and a tool reward.

Paper: ParaVT: Taming the Tool Prior Paradox for Parallel Tool Use in Agentic
Video Reinforcement Learning, 2605.20342.

  A = z_group( R_outcome + R_format + R_tool )

The paper pays format where tags are prone to break, and tools that were read,
ran and helped; here a message that was not understood costs 0.1, which is
both. All members of a group get the same budget, as all see the same task;
its frame budgets and its forced start of thinking are those of a video agent.
A format reward as large as the outcome would be learned instead of it.

  python -m experiments.train --config=configs/para_grpo.py \
    --workdir=runs/para_grpo
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='para_grpo')
  c.reward = ('outcome', 'invalid')
  base.hp(c, 'reward', 'invalid', penalty=0.1)
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.loss_aggregation.ppo = 'trajectory_mean'
  return base.finish(c)
