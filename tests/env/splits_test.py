"""Splits by content: a key is stable, blind to symmetry, and decides alone."""

import numpy as np
import pytest

from agentrl.env import splits
from tests import errors


def test_a_board_and_its_mirrored_and_turned_forms_have_one_key():
  board = np.random.default_rng(0).integers(0, 4, (3, 5), np.uint8)
  forms = [np.rot90(b, k) for b in (board, board.T) for k in range(4)]
  assert len({splits.symmetric_key(x) for x in forms}) == 1
  other = board.copy()
  other[0, 0] += 1
  assert splits.symmetric_key(other) != splits.symmetric_key(board)
  # The same cells in another shape are another board.
  assert splits.symmetric_key(board.reshape(1, 15)) != splits.symmetric_key(
    board
  )


def test_splits_draw_apart_and_mistakes_are_named():
  one, two, again = (
    splits.split_rng(split, 3).integers(1 << 30)
    for split in ('train', 'test', 'train')
  )
  assert one == again != two
  with errors.raises(ValueError, 'dev'):
    splits.split_rng('dev', 0)
  with errors.raises(ValueError, '-1'):
    splits.split_rng('train', -1)


KEYS = [splits.content_key(str(i).encode()) for i in range(5000)]
TRAIN = {key for key in KEYS[:40] if splits.split_of(key) == 'train'}


def test_one_key_in_five_is_for_tests():
  share = np.mean([splits.split_of(key) == 'test' for key in KEYS])
  assert share == pytest.approx(1 / splits.TEST_SHARE, abs=0.03)
  # Which fifth may never change: what was held out would be trained on.
  held = [splits.split_of(f'{i:016x}') for i in (0, 1, 4, 5)]
  assert held == ['test', 'train', 'train', 'test']
  assert splits.content_key(b'agentrl') == '7079fbc09a3794ba'


def test_distinct_tasks_are_all_of_a_split_and_no_more():
  rng = np.random.default_rng(0)

  def draw():
    i = rng.integers(50)
    return (KEYS[i], i) if i < 40 else None

  def finish(key, draft):
    assert KEYS[draft] == key
    return key

  some = splits.distinct_tasks(draw, finish, 'train', len(TRAIN), 80)
  assert sorted(some) == sorted(TRAIN)
  more = splits.distinct_tasks(draw, finish, 'train', len(TRAIN) + 1, 80)
  with errors.raises(ValueError, f'{len(TRAIN)} {len(TRAIN) + 1} train'):
    list(more)


def test_a_refused_draft_is_finished_once():
  asked, key = [], min(TRAIN)
  tasks = splits.distinct_tasks(
    lambda: (key, 0), lambda *x: asked.append(x), 'train', 1, 50
  )
  with errors.raises(ValueError, '0 1 train'):
    list(tasks)
  assert asked == [(key, 0)]
