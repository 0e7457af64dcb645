"""SMART: imitation of tool calls where they are needed, with the reason.

Paper: SMART: Self-Aware Agent for Tool Overuse Mitigation, 2502.11435.

  hard:  <think>large numbers</think><exact>47*23</exact>, then the answer
  easy:  <think>small numbers</think><answer>12</answer>
  L = -log pi(thoughts, calls and answers)

Half of the questions are easy, with numbers up to env.small, and are answered
from memory; all others go to a tool. The paper's labels say whether a model is
reliable without the tool, its domains are mathematics, time and intention, and
a model writes the reasons; ours are a rule on numbers, which is stated. Always
the tool, never, and more data of it; a price of calls in RL; and operands that
were never seen:

  --config.env.demonstrate=sure
  --config.env.demonstrate=never
  --config=configs/toolorchestra.py with the env fields of this file
  --config.env.largest=300 --config.init=runs/smart

Expect no needless calls (eval/total/needless_calls) at the success of always
calling, and no answers from memory (eval/total/unaided) for large numbers.

  python -m experiments.train --config=configs/smart.py --workdir=runs/smart
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='smart', env='unreliable_tools')
  if c.env.name == 'unreliable_tools':
    c.env.update(dict(small=12, largest=99, demonstrate='needed'))
    c.env.tools = 'exact 1 8 0 0'
    c.rollout.max_message_tokens = 64
  c.sft.steps *= 8  # there is no other stage
  c.stages = ('sft',)
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  return base.finish(c)
