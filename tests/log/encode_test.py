"""Numbers of a trajectory are written so that they come back."""

import json

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
