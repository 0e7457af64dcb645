"""ToolPO: adds an advantage of tool calls, on the tokens of the calls.

Paper: DeepAgent: A General Reasoning Agent with Scalable Toolsets, 2510.21618.

  A_t = z_group(R_success) + 1[t in a call] z_group(R_action)

R_success is the task's score, R_action counts the calls of the trajectory
that were right, here less those that were not understood. Where the
environment tells calls apart (countdown, search_questions, shop, ...) the span
is 'call', arguments included. Elsewhere all of a message is the call, on hosts
less its thought and its answer: the span is 'other' (hp.action.on_span.name).
Folded memories would be a term and a span more.

  python -m experiments.train --config=configs/toolpo.py --workdir=runs/toolpo
"""

from agentrl.configs import base, envs


def get_config(arg=''):
  c = base.get_config(arg, method='toolpo')
  c.advantage = ('success', 'action')
  c.stream.success = ('episode_outcome', 'center', 'scale')
  c.stream.action = ('add_term', 'episode_sum', 'center', 'scale', 'on_span')
  base.hp(c, 'action', 'add_term', name='invalid', coef=-1.0)
  span = 'call' if 'call' in envs.spans(c) else 'other'
  base.hp(c, 'action', 'on_span', name=span)
  return base.finish(c)
