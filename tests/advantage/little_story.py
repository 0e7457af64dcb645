"""Little stories with given numbers, and turn credits of them."""

import numpy as np

from tests import batches
from tests.batches import links


def make(
  reward,
  *,
  group=None,
  state=None,
  step=None,
  outcome=None,
  size=None,
  **token,
):
  """A story of turn rewards; one token a turn and all else 0, unless said."""
  size = size or [[1] * len(x) for x in reward]
  blank = [[np.zeros(n) for n in x] for x in size]
  return batches.Story(
    group=group or [0] * len(reward),
    reward=reward,
    state=state or [[0] * len(x) for x in reward],
    step=step or reward,
    outcome=outcome or [float(sum(x)) for x in reward],
    size=size,
    answer=[[1] * len(x) for x in reward],
    token=dict.fromkeys(batches.TOKEN_FIELDS, blank) | token,
  )


def turn_credit(step, reward, *names, state=None):
  """Turn credits of a little story, the outcome the sum of its rewards."""
  laid = batches.lay(make(reward, step=step, state=state))
  credit, _ = batches.stream(links(*names), laid.batch, laid.signals)
  turn = np.asarray(credit.turn)
  return [turn[i, : len(x)] for i, x in enumerate(step)]


def equal_steps():
  """A story; all turns of its second group have the same step reward."""
  s = batches.story(seed=4)
  step = [
    [0.3] * len(x) if g == 1 else x
    for g, x in zip(s.group, s.step, strict=True)
  ]
  return s._replace(step=step)
