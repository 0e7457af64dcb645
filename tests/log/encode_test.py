"""Numbers of a trajectory are written so that they come back."""

import json
import types

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.log import encode, trajectories


@settings(deadline=None, max_examples=300)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float32_is_read_back_bit_for_bit(x):
  line = trajectories.encode({'x': encode._number(np.float32(x))})
  back = np.float32(json.loads(line)['x'])
  assert back.tobytes() == np.float32(x).tobytes()


def test_the_history_is_how_turns_share_rows():
  rows = types.SimpleNamespace(seg=np.array([[0, 0, 1, 1], [0, 0, 0, 0]]))

  def history(*places):
    turns = {k: (r, 0, first, first + 1) for k, (r, first) in enumerate(places)}
    return encode._history(rows, turns)

  assert history((0, 1)) == 'full'
  assert history((1, 0), (1, 3)) == 'full'
  assert history((0, 0), (1, 0)) == 'turn'
  assert history((0, 0), (0, 2)) == 'tree'
