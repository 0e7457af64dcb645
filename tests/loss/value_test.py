"""Regression of values: where it is clipped, and which head."""

import numpy as np
import pytest

from tests.loss import token_inputs

pytestmark = pytest.mark.usefixtures('float64')


def test_value_clip_holds_where_it_went_too_far():
  """From 0 to 0.5 towards 1: the clipped error, 0.8²/2, without a slope."""
  inputs = token_inputs.make_tokens([0.0], [0.0], value=0.5, goal=1.0)
  value, _, metrics = token_inputs.loss_of('value_clipped', inputs)
  np.testing.assert_allclose(value, [[0.32]])
  assert not token_inputs.slope_of('value_clipped', inputs).value.any()
  assert tuple(map(float, metrics['clip'])) == (1.0, 1.0)
  np.testing.assert_allclose(metrics['error'], (0.125, 1.0))
  np.testing.assert_allclose(
    token_inputs.loss_of('value', inputs)[0], [[0.125]]
  )


@pytest.mark.parametrize('clip', [0.2, 2.0, np.inf])
def test_what_stays_inside_is_not_counted_as_clipped(clip):
  """In float32, where v_old + (v - v_old) is another number than v."""
  r, shape = np.random.default_rng(0), (1, 4096)
  old, goal = (r.normal(0, x, shape).astype(np.float32) for x in (0.1, 3))
  v = (old + r.uniform(-0.19, 0.19, shape)).astype(np.float32)
  near = old + np.clip(v - old, -clip, clip)
  assert np.mean(np.square(near - goal) > np.square(v - goal)) > 0.003
  zero = np.zeros(shape[1])
  outputs, batch, credit, signals = token_inputs.make_tokens(zero, zero)
  outputs = outputs.replace(value=v[..., None])
  credit = credit.replace(target=credit.target | {'value': goal})
  inputs = outputs, batch, credit, signals | {'value': old}
  value, _, metrics = token_inputs.loss_of(
    'value_clipped', inputs, clip=np.float32(clip)
  )
  assert value.dtype == np.float32
  assert tuple(map(float, metrics['clip'])) == (0.0, 4096.0)
  np.testing.assert_array_equal(value, np.square(v - goal) / 2)


def test_another_head_of_the_value():
  outputs, *rest = token_inputs.make_inputs()
  one = token_inputs.loss_of('value', (outputs, *rest), head=1)[0]
  flipped = outputs.replace(value=outputs.value[..., ::-1])
  np.testing.assert_array_equal(
    one, token_inputs.loss_of('value', (flipped, *rest))[0]
  )
