"""Turn values that move round in their trajectory, against a plain loop."""

import numpy as np
import pytest

from tests import batches
from tests.advantage import unscored

pytestmark = pytest.mark.usefixtures('float64')

STORY = batches.story(7, groups=3, members=4)


def _moved(layout='packed', failed=()):
  laid = batches.lay(STORY, layout, padding=1)
  batch = unscored.turns(laid.batch, *failed)
  made = batches.links('add_signal', 'move_turns')
  credit, _ = batches.stream(made, batch, laid.signals)
  return np.asarray(credit.turn)


@pytest.mark.parametrize('layout', batches.BY_DAY)
def test_every_turn_has_the_value_of_the_turn_half_a_trajectory_before(layout):
  got = _moved(layout)
  for i, x in enumerate(STORY.step):
    n = len(x)
    for k in range(n):
      assert got[i, k] == x[(k - n // 2) % n]
    assert not got[i, n:].any()
  assert not got[len(STORY.step) :].any()


def test_a_turn_whose_judge_failed_stays_out_of_it():
  got, x = _moved(failed=[(1, 2)])[1], STORY.step[1]
  assert len(x) == 4
  # It earns nothing, and nobody else has what it would have earned.
  np.testing.assert_array_equal(got[:4], [x[3], x[0], 0, x[1]])
