"""Slots of a ring against a loop, and what comes back where it stood."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.memory import trajectory_ring
from tests import errors
from tests.memory.sampled import B
from tests.memory.sampled import batch as batch_of

pytestmark = pytest.mark.usefixtures('float64')


@pytest.mark.parametrize('first', [0, 2, 4])
@pytest.mark.parametrize(
  'good', [[], [0], [1, 3], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5, 6]]
)
def test_slots_follow_one_another_and_none_is_taken_twice(first, good):
  capacity, want, at = 5, [], first
  for i in range(7):
    if i in good and len([x for x in want if x < capacity]) < capacity:
      want.append(at % capacity)
      at += 1
    else:
      want.append(capacity)
  mask = jnp.isin(jnp.arange(7), jnp.array(good, jnp.int32))
  slot, after = trajectory_ring.ring(jnp.int32(first), mask, capacity)
  assert slot.tolist() == want
  assert int(after) == at % capacity


@pytest.mark.slow
def test_what_is_put_is_what_comes_back_from_its_slot():
  batch, capacity = batch_of(0), 7
  stored = trajectory_ring.empty('replay', batch, capacity)
  slot = jnp.where(jnp.arange(B) < 4, jnp.array([6, 0, 3, 5] + [0] * 6), 7)
  stored = trajectory_ring.put(stored, trajectory_ring.of_batch(batch), slot)
  back, live = jnp.array([3, 1, 6]), jnp.array([True, False, True])
  grown = trajectory_ring.append(batch, stored, back, live, jnp.array([2] * 3))
  np.testing.assert_array_equal(
    trajectory_ring.slots(grown, capacity), [capacity] * B + [3, capacity, 6]
  )
  np.testing.assert_array_equal(
    trajectory_ring.fresh(grown), [True] * B + [False] * 3
  )
  for place, i in ((B, 2), (B + 2, 0)):
    for name in ('tokens', 'logp', 'weight', 'turn', 'seg'):
      got, was = (vars(x.rows)[name] for x in (grown, batch))
      np.testing.assert_array_equal(got[place], was[i])
    np.testing.assert_array_equal(
      grown.turns.reward[place], batch.turns.reward[i]
    )
  empty = jax.tree.map(lambda x: np.asarray(x[B + 1]), grown.rows)
  assert not empty.weight.any()
  assert (empty.traj == -1).all()
  assert grown.ids['age'].tolist() == [0] * B + [2, 0, 2]


def test_room_and_shapes_are_checked():
  with errors.raises(ValueError, 'experience_replay n 4 3'):
    trajectory_ring.check_room('experience_replay', 4, 3)
  batch = batch_of(0)
  with errors.raises(ValueError, 'compensation'):
    trajectory_ring.empty(
      'compensation', batch.replace(readings={'hint': batch.rows}), 3
    )
