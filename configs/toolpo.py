"""ToolPO: adds an advantage of tool calls, on the tokens of the calls.

Paper: DeepAgent: A General Reasoning Agent with Scalable Toolsets, 2510.21618.

  A_t = z_group(R_success) + 1[t in a call] z_group(R_action)

R_success is the task's score, R_action counts the calls of the trajectory
that were right, here less those that were not understood. The rollouts of
jittable environments do not tell apart what is in a message, all of which is
the call: the span is 'other'; with a rollout that marks calls it is 'call'
(hp.action.on_span.name). Folded memories would be a term and a span more.

  python -m experiments.train --config=configs/toolpo.py --workdir=runs/toolpo
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='toolpo')
  c.advantage = ('success', 'action')
  c.stream.success = ('episode_outcome', 'center', 'scale')
  c.stream.action = ('add_term', 'episode_sum', 'center', 'scale', 'on_span')
  base.hp(c, 'action', 'add_term', name='invalid', coef=-1.0)
  base.hp(c, 'action', 'on_span', name='other')
  return base.finish(c)
