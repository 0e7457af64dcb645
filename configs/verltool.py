"""VerlTool: a message ends with its call; trajectories do not wait for others.

Paper: VerlTool: Towards Holistic Agentic Reinforcement Learning with Tool Use,
2509.01055.

  z = p a_1 o_1 a_2 o_2 ... a_K    a_k ends with a stop text or the end of turn
  A = (R - mean) / (std + eps)     in its group;  weight 1 for a_k, 0 for o_k

Tool answers are read and never trained on; they are appended as tokens, so
nothing is tokenised twice. Each trajectory continues as soon as its own tool
has answered, as in all host environments here: experiments.bench_waiting
measures the paper's speed-up, not this config. A tool is a class with a name, a
description and a call (docs/TOOLS.md).

Departures: the paper's tools run on a server of their own; here they are
workers of the run, tools of an MCP server (env=mcp), or a program's
(env=program). Observations are cut at the end, the paper's at the beginning. A
minimum number of turns and a forced last message are not implemented. The
paper trains models of 1.5B to 7B on six domains; here the task is countdown
with a calculator.

Expect GRPO's curve, in less time where tools are slow.

  python -m experiments.train --config=configs/verltool.py \
    --workdir=runs/verltool
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='verltool', env='countdown')
  if c.env.name == 'countdown':
    c.host.stop_strings = ('</calculator>', '</answer>')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  return base.finish(c)
