"""Credit against truth: the measures by hand and in plain loops."""

import numpy as np
from scipy import stats

from agentrl.stats import credit_accuracy


def story(seed=0):
  """Two cells of every kind, one that is seen once."""
  r = np.random.default_rng(seed)
  cell = np.array([0] * 5 + [1] * 3 + [2] * 4 + [3])
  truth = np.array([0.75, -0.25, 0.0, 9.0])[cell]
  return truth + r.normal(size=cell.size), truth, cell


def test_bias_and_noise_in_plain_loops():
  x, t, cell = story()
  means, truths, variances, counts = [], [], [], []
  for c in (0, 1, 2):  # cell 3 was seen once
    here = [float(x[i]) for i in range(len(x)) if cell[i] == c]
    n, mean = len(here), sum(here) / len(here)
    means.append(mean)
    truths.append(float(t[cell == c][0]))
    variances.append(sum((y - mean) ** 2 for y in here) / (n - 1))
    counts.append(n)
  total = sum(counts)
  mt = sum(n * m * y for n, m, y in zip(counts, means, truths, strict=True))
  mm = sum(n * m * m for n, m in zip(counts, means, strict=True))
  a = mt / mm
  assert a > 0
  size = sum(n * y * y for n, y in zip(counts, truths, strict=True)) / total
  wrong, noise = 0.0, 0.0
  for n, m, y, s in zip(counts, means, truths, variances, strict=True):
    wrong += n * ((a * m - y) ** 2 - a * a * s / n) / total
    noise += n * a * a * s / total
  want = a, np.sqrt(max(wrong, 0) / size), np.sqrt(noise / size)
  np.testing.assert_allclose(credit_accuracy.bias_and_noise(x, t, cell), want)


def test_scaled_truth_has_neither_bias_nor_noise():
  _, t, cell = story()
  np.testing.assert_allclose(
    credit_accuracy.bias_and_noise(3 * t, t, cell), (1 / 3, 0, 0), atol=1e-7
  )


def test_reversed_or_missing_credit_is_all_bias():
  _, t, cell = story()
  assert credit_accuracy.bias_and_noise(-t, t, cell) == (0, 1, 0)
  assert credit_accuracy.bias_and_noise(0 * t, t, cell) == (0, 1, 0)
  assert credit_accuracy.bias_and_noise(t, 0 * t, cell) == (0, 0, 0)


def test_spearman_with_ties():
  x, t, _ = story()
  x = np.round(x)
  want = stats.spearmanr(x, t).statistic
  np.testing.assert_allclose(credit_accuracy.spearman(x, t), want)
  assert credit_accuracy.spearman(0 * x, t) == 0


def test_found_by_hand():
  truth = np.array([[0, 1, 0], [0, -1, 0], [3, 0, 0], [0, 0, 0]], float)
  valid = np.ones((4, 3), bool)
  valid[2, 2] = False
  group = np.array([0, 0, 1, 2])
  # Group 0: means 2, 3, 0: found. Group 1: two turns of equal size: 1/2.
  # Group 2 has no truth and does not count.
  credit = np.array([[4, 1, 0], [0, -5, 0], [2, -2, 99], [1, 2, 3]], float)
  assert credit_accuracy.top_turn_share(credit, truth, valid, group) == 0.75
  same = np.ones_like(truth)
  assert (
    credit_accuracy.top_turn_share(same, truth, valid, group)
    == (1 / 3 + 1 / 2) / 2
  )


def test_rounding_is_no_information():
  """The same advantage everywhere, as float32 sums give it."""
  valid = np.ones((2, 4), bool)
  credit = np.full((2, 4), 0.1) + 1e-8 * np.arange(8).reshape(2, 4)
  got = credit_accuracy.agree(credit, np.eye(4)[:2], valid, np.zeros(2, int))
  assert got.rank == 0
  assert got.found == 0.25


def test_cells_are_equal_truth_at_the_same_turn():
  truth = np.array([[0.1, 0.1, 0], [0.1, 0, 0], [0.1 + 1e-9, 0.1, 0]])
  cell = credit_accuracy.cells(truth)
  first, second, third = cell.T
  assert len(set(first)) == 1
  assert second[0] == second[2] != second[1]
  assert len(set(third)) == 1
  assert not set(first) & set(second)
