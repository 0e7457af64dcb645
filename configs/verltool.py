"""VerlTool: a message ends with its call; trajectories do not wait for others.

Paper: VerlTool: Towards Holistic Agentic Reinforcement Learning with Tool Use,
2509.01055.

  z = p a_1 o_1 a_2 o_2 ... a_K    a_k ends with a stop text or the end of turn
  A = (R - mean) / (std + eps)     in its group;  weight 1 for a_k, 0 for o_k

What tools answer is read and never trained on; it is appended as tokens, so
that nothing is tokenised twice. Each trajectory goes on as soon as its own tool
has answered, as in all host environments here: the paper's gain in speed is
that of experiments.bench_waiting, not of this config. A tool is a class with a
name, a description and a call (docs/TOOLS.md).

Departures: the paper's tools live behind a server of their own; here they are
workers of the run, those of an MCP server (env=mcp), or a program's
(env=program). Observations are cut at their end, the paper's at their
beginning. A least number of turns and a forced last message are not there. The
paper's models are of 1.5B to 7B, on six domains; here the task is countdown
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
