"""Pairs by the world: every twin is worse, its fault is where it is said."""

import jax
import numpy as np
import pytest

from agentrl.lab.papers.planted_pairs import pairs
from agentrl.lab.papers.planted_pairs.twins import DETOUR, EQUAL, KINDS
from tests import errors


def test_every_twin_is_worse_in_the_world(bucket, batch, by_task):
  turns = by_task(batch.turns.valid.sum(axis=1))
  outcome, earned = by_task(batch.outcome), by_task(pairs.earned(batch))
  assert np.all(outcome[:, 0] == 1)
  assert np.all(earned[:, :1] > earned[:, 1:])
  for i, kind in enumerate(KINDS, 1):
    assert np.all(outcome[:, i] == (kind not in EQUAL)), kind
    more = 0 if kind in EQUAL else DETOUR
    np.testing.assert_array_equal(turns[:, i], turns[:, 0] + more)
  assert [len(x) for x in bucket.solved] == turns[:, 0].tolist()


def test_faults_are_where_the_world_sees_them(bucket, batch, by_task):
  """A loop and a detour come back to their state, a blank is no action."""
  state, invalid = by_task(batch.turns.state), batch.turns.terms['invalid']
  invalid = by_task(invalid)
  assert invalid.sum() == len(bucket.solved)
  for task, found in enumerate(bucket.twins):
    for i, (kind, turn, _) in enumerate(found, 1):
      own, seen = state[task, 0], state[task, i]
      np.testing.assert_array_equal(seen[: turn + 1], own[: turn + 1])
      if kind == 'invalid':
        assert invalid[task, i, turn] == 1
        last = turn + 1 == len(bucket.solved[task])
        assert last or seen[turn + 1] == seen[turn]
      if kind in ('loop', 'detour'):
        assert seen[turn + 1] != seen[turn] == seen[turn + DETOUR]


def test_a_twin_that_is_no_worse_is_refused(bucket):
  same = [
    [x._replace(actions=own) for x in of]
    for own, of in zip(bucket.solved, bucket.twins, strict=True)
  ]
  with errors.raises(RuntimeError, 'twin'):
    pairs.replayed(bucket._replace(twins=same))


def test_accuracy_counts_pairs_and_half_of_the_ties():
  r = np.random.default_rng(0)
  score = r.integers(0, 4, (30, 1 + len(KINDS))).astype(float)
  for kind, got in enumerate(pairs.accuracy(score), 1):
    want = 0.0
    for row in score.tolist():
      want += 1.0 if row[0] > row[kind] else 0.5 if row[0] == row[kind] else 0
    assert got == pytest.approx(want / len(score))


def test_the_truth_is_always_right_and_a_constant_half(batch, by_task):
  truth = by_task(pairs.earned(batch))
  np.testing.assert_array_equal(pairs.accuracy(truth), 1)
  np.testing.assert_array_equal(pairs.accuracy(0 * truth), 0.5)


def test_levels_of_training_are_not_those_held_out(bucket):
  s = bucket.setup
  of, count = [(4, 6), (7, 9)], 8
  seen = []
  for split in ('train', 'test'):
    for (least, most), b in zip(
      of, pairs.buckets(s, split, count, of), strict=True
    ):
      assert all(least <= len(x) <= most for x in b.solved)
      tasks = jax.device_get(b.setup.world.tasks)
      seen += [
        b''.join(tasks[x][i].tobytes() for x in ('walls', 'targets', 'boxes'))
        + tasks['player'][i].tobytes()
        for i in range(count)
      ]
  assert len({*seen}) == 4 * count
