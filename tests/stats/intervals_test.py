"""Intervals: published numbers, identities, coverage, errors."""

import numpy as np
import pytest
from scipy import stats

from agentrl.stats import intervals
from tests import errors


@pytest.mark.parametrize(
  ('successes', 'n', 'low', 'high'),
  [
    (10, 100, 0.0552, 0.1744),
    (81, 263, 0.2553, 0.3662),  # Newcombe 1998 (single proportion), table I
    (15, 148, 0.0624, 0.1605),
    (0, 20, 0.0, 0.1611),
    (1, 29, 0.0061, 0.1718),
    (29, 29, 0.8830, 1.0),
  ],
)
def test_wilson_published_numbers(successes, n, low, high):
  got = intervals.wilson(successes, n)
  np.testing.assert_allclose(got, (low, high), atol=5e-5)


def test_wilson_inverts_the_score_test():
  z = stats.norm.ppf(0.95)
  for p in intervals.wilson(7, 40, level=0.9):
    score = abs(7 / 40 - p) / np.sqrt(p * (1 - p) / 40)
    assert score == pytest.approx(z, rel=1e-12)


def test_wilson_is_symmetric_and_stays_inside():
  for s in range(31):
    low, high = intervals.wilson(s, 30)
    assert 0 <= low <= s / 30 <= high <= 1
    mirrored = intervals.wilson(30 - s, 30)
    np.testing.assert_allclose((1 - high, 1 - low), mirrored, atol=1e-12)
  assert intervals.wilson(0, 0) == (0.0, 1.0)


def test_trials_without_clusters_have_wilsons_interval():
  y = np.arange(30) % 3 == 0
  assert intervals.clustered(y, np.arange(30)) == intervals.wilson(10, 30)
  assert intervals.clustered([], []) == (0.0, 1.0)


@pytest.mark.parametrize('solved', [0, 1, 4, 11])
def test_trials_that_repeat_their_cluster_count_once(solved):
  """An episode played again word for word is no evidence."""
  y = np.arange(11) < solved
  got = intervals.clustered(np.tile(y, 7), np.tile(np.arange(11), 7))
  # D is n/T up to the bounds of the estimate, (T/(T-1)) n/T clipped.
  np.testing.assert_allclose(got, intervals.wilson(solved, 11), atol=1e-12)


def test_trials_of_one_cluster_are_one_trial():
  got = intervals.clustered([1, 0, 0, 1], [5, 5, 5, 5])
  z2 = stats.norm.ppf(0.975) ** 2
  half = np.sqrt(z2 / 4 + z2**2 / 4) / (1 + z2)
  np.testing.assert_allclose(got, (0.5 - half, 0.5 + half))


@pytest.mark.parametrize(('tasks', 'n'), [(11, 32), (20, 100), (100, 2000)])
@pytest.mark.parametrize('spread', [0.2, 1.0, 20.0])
def test_the_interval_over_clusters_covers_the_rate(tasks, n, spread):
  """At 95%, of tasks of success p ~ Beta(a, a); Wilson's as low as 39%."""
  r = np.random.default_rng(0)
  cluster, covered = np.arange(n) % tasks, []
  for _ in range(300):
    y = r.random(n) < r.beta(spread, spread, tasks)[cluster]
    low, high = intervals.clustered(y, cluster)
    covered.append(low <= 0.5 <= high)
  assert np.mean(covered) > 0.9


def test_clustered_checks_its_shapes():
  with pytest.raises(ValueError):
    intervals.clustered([True, False], [0])


@pytest.mark.parametrize(
  ('s1', 'n1', 's2', 'n2', 'low', 'high'),
  [
    (56, 70, 48, 80, 0.0524, 0.3339),  # Newcombe 1998, table II, method 10
    (9, 10, 3, 10, 0.1705, 0.8090),
    (6, 7, 2, 7, 0.0582, 0.8062),
    (5, 56, 0, 29, -0.0381, 0.1926),
    (10, 10, 0, 10, 0.6075, 1.0),
  ],
)
def test_difference_published_numbers(s1, n1, s2, n2, low, high):
  got = intervals.difference(s1, n1, s2, n2)
  np.testing.assert_allclose(got, (low, high), atol=5e-5)
  swapped = intervals.difference(s2, n2, s1, n1)
  np.testing.assert_allclose(swapped, (-high, -low), atol=5e-5)


def test_difference_without_episodes_knows_nothing():
  assert intervals.difference(0, 0, 3, 4) == (-1.0, 1.0)


def test_mean_interval_by_hand():
  # mean 3, s = √2.5, t(4, 97.5%) = 2.776445 (tables)
  half = 2.776445 * np.sqrt(2.5) / np.sqrt(5)
  got = intervals.mean_interval([1, 2, 3, 4, 5])
  np.testing.assert_allclose(got, (3 - half, 3 + half), atol=1e-6)


def test_difference_of_means_by_hand():
  """Spreads 1 and 4: se √(5/3), 2.941 degrees after Satterthwaite."""
  low, high = intervals.mean_difference([1, 2, 3], [2, 4, 6])
  half = stats.t.ppf(0.975, 50 / 17) * np.sqrt(5 / 3)
  assert (low, high) == pytest.approx((-2 - half, -2 + half))
  assert intervals.mean_difference([2, 2], [1, 1, 1]) == (1.0, 1.0)


def test_bootstrap_of_a_mean_is_close_to_student():
  values = np.random.default_rng(0).normal(2.0, 3.0, size=200)
  got = intervals.bootstrap(values, np.mean, seed=0, n=4000)
  np.testing.assert_allclose(got, intervals.mean_interval(values), atol=0.06)


def test_bootstrap_is_a_function_of_its_seed():
  values = np.arange(10.0)
  first = intervals.bootstrap(values, np.median, seed=1, n=200)
  assert first == intervals.bootstrap(values, np.median, seed=1, n=200)
  assert first != intervals.bootstrap(values, np.std, seed=1, n=200)
  assert intervals.bootstrap([4, 4], np.mean, seed=0, n=9) == (4.0, 4.0)


def test_bootstrap_resamples_whole_rows():
  pairs = np.stack([np.arange(8.0), np.arange(8.0)], axis=1)  # [8, 2]
  gap = intervals.bootstrap(
    pairs, lambda x: float((x[:, 0] - x[:, 1]).max()), seed=0, n=50
  )
  assert gap == (0.0, 0.0)


@pytest.mark.parametrize(
  ('call', 'told'),
  [
    (lambda: intervals.wilson(5, 4), 'successes 5'),
    (lambda: intervals.wilson(-1, 4), 'successes -1'),
    (lambda: intervals.wilson(1, 4, 95), 'level 95'),
    (lambda: intervals.difference(5, 4, 1, 2), 'successes 5'),
    (lambda: intervals.mean_interval([1.0]), ''),
    (lambda: intervals.mean_interval([1, 2], level=1), 'level 1'),
    (lambda: intervals.mean_difference([1.0], [1, 2]), ''),
    (lambda: intervals.bootstrap([1.0], np.mean, seed=0), '2'),
    (lambda: intervals.bootstrap([1, 2], np.mean, seed=0, n=0), 'n 0'),
  ],
)
def test_mistakes_are_named(call, told):
  with errors.raises(ValueError, told):
    call()
