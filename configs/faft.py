"""FAFT: imitation of good and bad plans, each behind its feedback.

Paper: Can We Rely on LLM Agents to Draft Long-Horizon Plans? Let's Take
TravelPlanner as an Example, 2408.06318.

  L = -sum log pi(plan | request, feedback(plan)),  plans good and bad
  at test: pi(. | request, "broken: none")

Feedback is the list of rules that a plan breaks (docs/ENVIRONMENTS.md,
Itineraries). The form is ours, for the paper gives no equation: supervised,
with one weight for good and bad. Half of the demonstrations are bad, drawn at
random, where the paper's are a model's; requests are of a generated world in
place of TravelPlanner's. The other arm has as many requests and steps, and good
plans alone, behind feedback that is always the same:

  --config.env.flawed=0

Expect more held-out plans without a broken rule than from good plans alone.

  python -m experiments.train --config=configs/faft.py --workdir=runs/faft
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='faft', env='itinerary')
  if c.env.name == 'itinerary':
    c.env.update(dict(feedback=True, flawed=0.5))
  c.sft.steps *= 8  # there is no other stage
  c.stages = ('sft',)
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  return base.finish(c)
