"""ToolPO: adds an advantage of right calls, on the tokens of the calls.

Paper: DeepAgent: A General Reasoning Agent with Scalable Toolsets, 2510.21618.

  A_t = z_group(R_success) + 1[t in a call] z_group(R_action)

R_success is the task's score, R_action the number of the trajectory's calls
that were right: in a corpus one that shows gold evidence not read before
(`useful`), of other tools one that ran (`calls` less `faults`), and with
`judged=` what the judge says. A trajectory without calls has R_action 0, and no
token to be credited with it. Where the world counts no calls, R_action falls by
1 for a message that was not understood; where it marks none, it is credited on
what is neither thought nor answer, the span 'other'.

Missing: folded memories, and the simulator of tools.

Expect more useful calls than of GRPO, early, and answers after them. Seen so
far, three seeds: -1.9 [-3.2, -0.6] points from its success
(docs/results/first_looks.md).

  python -m experiments.train --config=configs/toolpo.py --workdir=runs/toolpo
"""

from agentrl.configs import base, envs


def get_config(arg=''):
  c = base.get_config(arg, method='toolpo', env='fact_corpus')
  terms, weights = _right_calls(c)
  c.reward = ('weighted',)  # R_action; R_success is read off the outcome
  base.hp(c, 'reward', 'weighted', terms=terms, weights=weights)
  c.advantage = ('success', 'action')
  c.stream.success = ('episode_outcome', 'center', 'scale')
  c.stream.action = ('episode_return', 'center', 'scale', 'on_span')
  span = 'call' if 'call' in envs.spans(c) else 'other'
  base.hp(c, 'action', 'on_span', name=span)
  return base.finish(c)


def _right_calls(c):
  """Returns the terms that add up to R_action, and their weights."""
  known = envs.terms(c)
  if c.judge:
    return (base.step_term(c),), (1.0,)
  if 'useful' in known:
    return ('useful',), (1.0,)
  if 'faults' in known:
    return ('calls', 'faults'), (1.0, -1.0)
  return ('invalid',), (-1.0,)
