"""Splits by content: a key is stable, blind to symmetry, and decides alone."""

import itertools

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


def test_one_key_in_five_is_for_tests():
  keys = [splits.content_key(str(i).encode()) for i in range(5000)]
  share = sum(splits.split_of(key) == 'test' for key in keys) / len(keys)
  assert share == pytest.approx(1 / splits.TEST_SHARE, abs=0.03)


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


def numbered():
  count = itertools.count()
  return lambda: (splits.content_key(str(next(count) // 2).encode()), None)


def test_distinct_tasks_are_of_the_split_and_come_once():
  # Every draft comes twice, and every third is refused.
  refuse = itertools.cycle([True, False, False])
  tasks = list(
    splits.distinct_tasks(
      numbered(), lambda key, _: None if next(refuse) else key, 'test', 20
    )
  )
  assert len(tasks) == len(set(tasks)) == 20
  assert {splits.split_of(key) for key in tasks} == {'test'}


def test_patience_runs_out_in_one_sentence():
  draws = splits.distinct_tasks(lambda: None, lambda *x: x, 'train', 2, 10)
  with errors.raises(ValueError, '0 2'):
    list(draws)
