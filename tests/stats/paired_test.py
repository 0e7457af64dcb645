"""Comparisons of paired runs: by hand, by scipy, and by simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from agentrl.stats import paired
from tests import errors


def test_compare_by_hand():
  got = paired.compare([3.0, 5.0, 7.0, np.nan], [1.0, 4.0, 4.0, 2.0])
  assert (got.n, got.failed) == (3, (1, 0))
  assert (got.mean, got.median, got.sd) == (2, 2, 1)
  want = stats.ttest_rel([3.0, 5.0, 7.0], [1.0, 4.0, 4.0])
  assert got.p == pytest.approx(want.pvalue)
  low, high = want.confidence_interval()
  assert (got.low, got.high) == pytest.approx((low, high))
  assert got.better == pytest.approx(7 / 9)  # 6 wins and 2 ties of 9
  assert got.correlation == pytest.approx(3 / 12**0.5)


def test_an_arm_against_itself_is_no_difference():
  got = paired.compare([1.0, 2.0, 4.0], [1.0, 2.0, 4.0])
  assert (got.mean, got.low, got.high, got.p) == (0, 0, 0, 1)
  assert got.better == 0.5
  assert got.correlation == pytest.approx(1)


def test_what_cannot_be_compared():
  with pytest.raises(ValueError):
    paired.compare([1.0, 2.0], [1.0])
  with errors.raises(ValueError, '2'):
    paired.compare([1.0, np.nan], [1.0, 2.0])


def test_interquartile_mean():
  assert paired.interquartile_mean(range(8)) == 3.5
  assert paired.interquartile_mean([0, 0, 0, 1e9]) == 0
  x = np.random.default_rng(0).normal(size=40)
  assert paired.interquartile_mean(x) == pytest.approx(stats.trim_mean(x, 0.25))
  # Of ten runs the third and the eighth count half.
  ten = [9, 9, 1, 2, 3, 4, 5, 6, 9, 9]
  want = (3 / 2 + 4 + 5 + 6 + 9 + 9 / 2) / 5
  assert paired.interquartile_mean(ten) == pytest.approx(want)


def test_curves():
  assert paired.area([0, 10, 20], [0.0, 1.0, 1.0]) == 0.75
  assert paired.area([5, 15, 25], [0.0, 1.0, 1.0]) == 0.75  # wherever it is
  assert paired.steps_to([0, 10, 20], [0.0, 0.4, 0.8], 0.6) == 15
  assert paired.steps_to([0, 10], [0.0, 0.4], 0.6) == np.inf
  assert paired.steps_to([3, 10], [0.7, 0.4], 0.6) == 3
  with pytest.raises(ValueError):
    paired.area([0, 0], [1.0, 1.0])


@given(st.lists(st.integers(0, 6).map(lambda i: i / 12), min_size=1))
def test_holm_by_its_definition(p):
  """Of the j-th smallest, m − j + 1 are not smaller; ties among them."""
  got = paired.holm(dict(enumerate(p)))
  ordered = sorted(p)
  for i, x in enumerate(p):
    least = ordered.index(x)
    want = max(
      min(1, (len(p) - j) * q) for j, q in enumerate(ordered[: least + 1])
    )
    assert got[i] == pytest.approx(want)


def test_equivalence_is_two_one_sided_tests():
  r = np.random.default_rng(4)
  for margin in (0.1, 0.5, 2.0):
    a, b = r.normal(size=9), r.normal(size=9) / 2
    got = paired.equivalence(a, b, margin)
    for p, bound, side in (
      (got.less, -margin, 'greater'),
      (got.more, margin, 'less'),
    ):
      want = stats.ttest_1samp(a - b, bound, alternative=side).pvalue
      assert p == pytest.approx(want)
    assert got.p == max(got)


@pytest.mark.parametrize(
  ('gap', 'less', 'more'),
  [(0.0, 0, 0), (0.25, 0, 0), (0.5, 0, 1), (-0.5, 1, 0), (1.0, 0, 1)],
)
def test_a_difference_without_spread_is_within_or_not(gap, less, more):
  """On the margin it is not within."""
  a = np.array([1.0, 2.0, 4.0])
  got = paired.equivalence(a + gap, a, 0.5)
  assert (got.less, got.more) == (less, more)


def test_a_margin_is_above_0():
  for margin in (0.0, -1.0, np.nan):
    with errors.raises(ValueError, 'margin'):
      paired.equivalence([1.0, 2.0], [1.0, 2.0], margin)


@pytest.mark.parametrize('claimed', [0.5, -0.5])
@pytest.mark.parametrize(
  ('low', 'high', 'p', 'verdict'),
  [
    (0.1, 0.25, 0.01, 'confirmed'),  # half of it is not below half
    (0.1, 0.24, 0.01, 'smaller than claimed'),
    (0.0, 0.24, 0.01, 'refuted'),
    (0.0, 0.25, 0.01, 'not seen'),
    (0.1, 0.6, 0.25, 'not seen'),  # of a level, p must be below the rest
    (0.1, 0.2, 0.25, 'refuted'),
    (-0.3, -0.1, 0.01, 'refuted'),
  ],
)
def test_verdicts_at_their_bounds(claimed, low, high, p, verdict):
  ends = (low, high) if claimed > 0 else (-high, -low)
  assert paired.verdict(*ends, claimed, p, level=0.75) == verdict


def test_five_in_a_hundred_are_told_unless_said_otherwise():
  assert paired.verdict(1, 9, 8, 0.04) == 'confirmed'
  assert paired.verdict(1, 9, 8, 0.06) == 'not seen'


@pytest.mark.slow
def test_planted_differences_are_found_as_often_as_predicted():
  r = np.random.default_rng(0)
  n, sd, effect = 10, 4.1, 4.0
  found = [
    paired.compare(r.normal(effect, sd, n), np.zeros(n)).p < 0.05
    for _ in range(2000)
  ]
  assert np.mean(found) == pytest.approx(paired.power(effect, sd, n), abs=0.035)
  nothing = [
    paired.compare(r.normal(0, sd, n), np.zeros(n)).p < 0.05
    for _ in range(2000)
  ]
  assert np.mean(nothing) == pytest.approx(0.05, abs=0.02)


def test_smallest_difference_that_is_found():
  x = paired.smallest(4.1, 10)
  assert paired.power(x, 4.1, 10) == pytest.approx(0.8, abs=1e-3)
  assert x == pytest.approx(4.09, abs=0.02)  # of the planning table, r = .5
