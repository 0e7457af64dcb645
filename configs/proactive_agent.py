"""Proactive Agent: imitation of offers that are timely, and of silence.

Paper: Proactive Agent: Shifting LLM Agents from Reactive Responses to Active
Assistance, 2410.12361.

  L = -sum_t log pi(a_t | events up to t),  a_t an offer or none
  F1 of the offers: an offer is right if the user accepts it

Streams of events and needs are generated (docs/ENVIRONMENTS.md, Event
streams) in place of people's. An offer is accepted if it names the hidden
need, where the paper trains a model of people's acceptance to judge by.
Demonstrations are the optimal policy's under the known habits; the paper's are
what people accepted. To offer always or never has an F1 of 0.37 or 0.02 on
that page, the optimal policy 0.89.

Missing: the model of people's acceptance, trained on what they accepted; and
people's events.

Expect the F1 of streams (the outcome) to come near the optimal policy's. Not
measured yet.

  python -m experiments.train --config=configs/proactive_agent.py \
    --workdir=runs/proactive_agent
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='proactive_agent', env='event_stream')
  c.stages = ('sft',)
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  return base.finish(c)
