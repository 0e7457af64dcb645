"""What a supervised stage reads, and when."""

import numpy as np
import pytest

from agentrl.run.stage import sft_stages


class Recorded(sft_stages.MixtureReader):
  """A reader that reads its step's number and remembers it."""

  def __init__(self, end: int):
    super().__init__(None, 0, end, openers={}, counts=None)
    self.counts = np.zeros(8, np.int64)

  def read(self, step):
    self.counts[step] += 1
    if step == 4:
      raise ValueError('a damaged trajectory')
    return step


def test_each_step_is_read_once_a_step_ahead_and_none_past_the_end():
  it = Recorded(3)
  it.open(0)
  assert [it.task(None, step) for step in range(3)] == [0, 1, 2]
  it._thread.shutdown()  # when all that it was asked is read
  assert it.counts.tolist() == [1, 1, 1, 0, 0, 0, 0, 0]


def test_a_stage_that_goes_on_elsewhere_reads_what_it_is_asked():
  """What cannot be read is said at its own step."""
  it = Recorded(6)
  it.open(0)
  it.task(None, 0)
  it.open(2)
  assert [it.task(None, step) for step in (2, 3)] == [2, 3]
  with pytest.raises(ValueError):
    it.task(None, 4)


@pytest.mark.parametrize('start', [0, 5])
def test_a_stage_begins_at_its_first_step_and_goes_on_after_it(start):
  """Sources that a resumed run finds again are made where it begins."""
  told = []
  it = sft_stages.MixtureReader(
    None,
    start,
    start + 4,
    openers={'a': told.append, 'b': told.append},
    counts=np.zeros((4, 2), np.int64),
  )
  for step in (start, start + 1, start + 3):
    it.open(step)
  assert told == [True, True, False, False, False, False]
