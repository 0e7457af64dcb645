"""Turn credits of a little story."""

import numpy as np

from tests import batches
from tests.batches import links


def turn_credit(step, reward, *names, state=None):
  """Turn credits of a little story, the outcome the sum of its rewards."""
  blank = [[np.zeros(1) for _ in x] for x in step]
  s = batches.Story(
    group=[0] * len(step),
    reward=reward,
    state=state or [[0] * len(x) for x in step],
    step=step,
    outcome=[float(sum(r)) for r in reward],
    size=[[1] * len(x) for x in step],
    answer=[[0] * len(x) for x in step],
    token=dict.fromkeys(batches.TOKEN_FIELDS, blank),
  )
  laid = batches.lay(s)
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
