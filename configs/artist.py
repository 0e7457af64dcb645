"""ARTIST: when and how to call tools, learned from the outcome.

Paper: Agentic Reasoning and Tool Integration for LLMs via Reinforcement
Learning, 2505.01441.

  R = outcome + 0.1 format - 0.1 faults;   A = z_group( R )

What tools answer is read and never trained on, as everywhere here. `format` is
1 where the answer is written as asked, `faults` counts calls that went wrong.

Departures: the paper rewards the share of calls that succeed, which also pays
for calls that nobody needs; here each that fails costs, and an agent that makes
none loses nothing. Its models are of 7B and 14B, on olympiads and on function
calls of several turns; here the task is countdown with a calculator.

Expect more calls on instances that need one, fewer that fail, and more success
than without the tool.

  python -m experiments.train --config=configs/artist.py --workdir=runs/artist

A program (env=program, docs/GATEWAY.md) posts both terms beside its reward.
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='artist', env='countdown')
  c.reward = ('weighted',)
  terms, weights = ('outcome', 'format', 'faults'), (1.0, 0.1, -0.1)
  base.hp(c, 'reward', 'weighted', terms=terms, weights=weights)
  if c.env.name == 'program':
    c.env.terms = terms[1:]
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  return base.finish(c)
