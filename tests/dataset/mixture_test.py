"""Shares of sources: counts of every step, and what is read of each source."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.dataset import jit_tasks, mixture, trajectory_store
from tests import errors
from tests.dataset import stored_cases

# Eighths, which floats hold exactly.
WEIGHTS = st.integers(2, 4).flatmap(
  lambda s: st.lists(
    st.lists(st.integers(0, 8), min_size=s, max_size=s).filter(any),
    min_size=1,
    max_size=12,
  )
)


def by_hand(weights, batch):
  """The recursion in exact numbers, a trajectory at a time."""
  behind = [Fraction(0)] * len(weights[0])
  out = []
  for row in weights:
    behind = [
      x + Fraction(batch * w, sum(row))
      for x, w in zip(behind, row, strict=True)
    ]
    counts = [0] * len(row)
    for _ in range(batch):
      most = max(range(len(row)), key=lambda i: (behind[i], -i))
      counts[most] += 1
      behind[most] -= 1
    out.append((counts, list(behind)))
  return out


@given(WEIGHTS, st.integers(1, 9))
def test_counts_are_whole_and_follow_the_shares(weights, batch):
  got = mixture.counts(np.array(weights) / 8, batch)
  assert got.sum(axis=1).tolist() == [batch] * len(weights)
  sources, share = len(weights[0]), [Fraction(0)] * len(weights[0])
  for t, row in enumerate(weights):
    share = [
      x + Fraction(batch * w, sum(row)) for x, w in zip(share, row, strict=True)
    ]
    taken = got[: t + 1].sum(axis=0).tolist()
    behind = [x - n for x, n in zip(share, taken, strict=True)]
    assert all(-1 - 1e-9 < x < max(sources - 1, 1) + 1e-9 for x in behind)
    if all(x.denominator == 1 for x in share):
      assert not any(behind), 'whole shares are met exactly'
  assert np.all(got >= 0)


@pytest.mark.parametrize(
  ('weights', 'batch'),
  [
    ([[1, 3]] * 9, 8),
    ([[1, 7]] * 9, 4),  # a source of less than one trajectory a step
    ([[2, 3, 3]] * 16, 5),
    ([[8, 0], [6, 2], [4, 4], [2, 6], [0, 8]], 6),  # a schedule
    ([[0, 1], [1, 0], [5, 0]], 3),
    ([[1]], 7),
  ],
)
def test_counts_are_those_of_the_recursion(weights, batch):
  want = [counts for counts, _ in by_hand(weights, batch)]
  assert mixture.counts(np.array(weights) / 8, batch).tolist() == want


def test_a_step_without_weights_is_refused():
  with errors.raises(ValueError, '0 1'):
    mixture.counts(np.array([[1.0, 0.0], [0.0, 0.0]]), 4)


def test_every_source_is_read_epoch_by_epoch():
  counts = mixture.counts(np.array([[3.0, 1.0], [1.0, 3.0], [1.0, 1.0]] * 4), 6)
  sizes = (5, 7)
  for s, n in enumerate(sizes):
    read = [mixture.places(counts, sizes, 3, t)[s] for t in range(len(counts))]
    assert [len(x) for x in read] == counts[:, s].tolist()
    whole = np.concatenate(read)
    for epoch in range(len(whole) // n):
      assert sorted(whole[epoch * n : (epoch + 1) * n]) == list(range(n))
    assert whole[:n].tolist() != whole[n : 2 * n].tolist()
  alone = np.full((4, 1), 6)
  for t in range(4):
    (got,) = mixture.places(alone, (5,), 3, t)
    want = jit_tasks.epoch_order(5, 3, t, 6)
    np.testing.assert_array_equal(got, want)


def test_a_list_is_a_source():
  xs = [stored_cases.story(i, turns=i) for i in range(4)]
  listed = mixture.Listed(xs)
  assert listed.take(np.array([2, 0, 2])) == [xs[2], xs[0], xs[2]]
  want = [trajectory_store.facts(x) for x in xs]
  for field, column in zip(
    trajectory_store.HEAD.names, zip(*want, strict=True), strict=True
  ):
    np.testing.assert_allclose(listed.heads[field], column, rtol=1e-6)
  assert len(mixture.Listed([]).heads) == 0


def test_what_is_not_scored_is_left_out():
  one = stored_cases.story(1, turns=3)
  scored, broken = (
    one._replace(turns=tuple(t._replace(scored=x) for t in one.turns))
    for x in (True, False)
  )
  partly = scored._replace(turns=(*scored.turns[:2], broken.turns[2]))
  empty = one._replace(turns=())
  assert mixture.counted([broken, scored, partly, empty]) == [scored]
