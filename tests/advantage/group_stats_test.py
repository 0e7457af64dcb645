"""Cells of a batch, and what counts in them."""

import numpy as np
import pytest

from agentrl.advantage import group_stats
from tests import batches, errors

pytestmark = pytest.mark.usefixtures('float64')


@pytest.mark.parametrize(
  'by',
  [
    (),
    ('group',),
    ('group', 'state'),
    ('state', 'turn'),
    ('group', 'agent', 'node'),
  ],
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
