"""Cells of a batch, and what counts in them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.advantage import group_stats
from tests import batches, errors
from tests.advantage import one_token_turns


@pytest.fixture(autouse=True)
def _float64():
  with jax.enable_x64(True):
    yield


def test_columns_split_cells():
  batch = one_token_turns.make_batch([[1.0, 5.0], [3.0, 9.0]])
  by_turn = one_token_turns.turn_credit(
    batch, ('center', {'by': ('group', 'turn')})
  )
  np.testing.assert_array_equal(by_turn, [[-1, -2], [1, 2]])
  by_agent = one_token_turns.turn_credit(batch, ('center', {'by': ('agent',)}))
  np.testing.assert_array_equal(by_agent, by_turn)
  alone = one_token_turns.turn_credit(batch, ('center', {'by': ('node',)}))
  np.testing.assert_array_equal(alone, 0)
  every = one_token_turns.turn_credit(batch, ('center', {'by': ()}))
  np.testing.assert_array_equal(every, [[-3.5, 0.5], [-1.5, 4.5]])


def test_equal_states_of_two_groups_stay_apart():
  batch = one_token_turns.make_batch(
    [[1.0], [3.0], [10.0], [20.0]], group=[0, 0, 7, 7]
  )
  got = one_token_turns.turn_credit(
    batch, ('center', {'by': ('group', 'state')})
  )
  np.testing.assert_array_equal(got[:, 0], [-1, 1, -5, 5])


def test_cells_of_a_random_batch():
  s = batches.story(seed=5)
  batch = jax.tree.map(jnp.asarray, batches.lay(s).batch)
  cell = np.asarray(group_stats.cells(batch, ('group', 'state')))
  keys: dict[int, set] = {}
  for i, row in enumerate(s.state):
    for k, state in enumerate(row):
      keys.setdefault(cell[i, k], set()).add((s.group[i], state))
  assert all(len(v) == 1 for v in keys.values())
  want = {(g, x) for g, row in zip(s.group, s.state, strict=True) for x in row}
  assert len(keys) == len(want)


@pytest.mark.parametrize(
  'by', [(), ('group',), ('state', 'turn'), ('group', 'agent', 'node')]
)
def test_turns_share_a_cell_where_all_columns_are_equal(by):
  batch = batches.lay(batches.story(5, groups=2, members=2), 'history').batch
  turns, (b, k) = batch.turns, batch.turns.valid.shape
  column = {
    'group': np.broadcast_to(batch.ids['group'][:, None], (b, k)),
    'turn': np.broadcast_to(np.arange(k)[None], (b, k)),
    **{x: np.asarray(getattr(turns, x)) for x in ('state', 'agent', 'node')},
  }
  keys = np.stack([np.zeros((b, k)), *(column[x] for x in by)], -1)
  keys = keys.reshape(b * k, -1)
  got = np.asarray(group_stats.cells(batch, by)).reshape(-1)
  want = (keys[:, None] == keys[None]).all(-1)
  np.testing.assert_array_equal(got[:, None] == got[None], want)


def test_a_column_that_the_batch_lacks_is_named():
  batch = batches.lay(batches.story(5), 'history').batch
  with errors.raises(ValueError, 'branch group'):
    group_stats.cells(batch, ('group', 'branch'))
