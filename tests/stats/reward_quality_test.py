"""Measures of a reward model, by their definitions."""

import itertools

import numpy as np

from agentrl.stats import reward_quality
from tests import errors

R = np.random.default_rng(0)
SCORE = np.round(R.normal(size=40), 1)  # with ties
LABEL = R.random(40) < 1 / (1 + np.exp(-2 * SCORE))


def test_auroc_and_pair_accuracy_count_pairs():
  pairs = list(itertools.product(SCORE[LABEL], SCORE[~LABEL]))
  want = np.mean([(a > b) + 0.5 * (a == b) for a, b in pairs])
  assert any(a == b for a, b in pairs)
  np.testing.assert_allclose(reward_quality.auroc(SCORE, LABEL), want)
  win, lose = zip(*pairs, strict=True)
  np.testing.assert_allclose(reward_quality.pair_accuracy(win, lose), want)


def test_brier_and_calibration_by_bins():
  chance = np.append(R.random(500), [0.0, 1.0, 0.3])
  label = R.random(503) < chance**2  # too sure of itself
  want = np.mean([(p - y) ** 2 for p, y in zip(chance, label, strict=True)])
  np.testing.assert_allclose(reward_quality.brier(chance, label), want)
  want = 0
  for b in range(4):
    mine = [b / 4 <= p < (b + 1) / 4 or (b == 3 and p == 1) for p in chance]
    want += np.mean(mine) * abs(np.mean(label[mine]) - np.mean(chance[mine]))
  got = reward_quality.calibration_error(chance, label, bins=4)
  np.testing.assert_allclose(got, want)
  right = R.random(503) < chance
  assert got > 2 * reward_quality.calibration_error(chance, right, bins=4)


def test_best_of_n_is_the_mean_over_subsets():
  proxy, truth = np.round(R.normal(size=(2, 3, 6)), 0)
  sizes = (1, 2, 4, 6)
  got = reward_quality.best_of_n(proxy, truth, sizes)
  for k, a, b in zip(sizes, got.proxy.T, got.truth.T, strict=True):
    a, b = a.mean(), b.mean()
    best, value = [], []
    for row, true in zip(proxy, truth, strict=True):
      for some in map(list, itertools.combinations(range(6), k)):
        top = row[some].max()
        best.append(top)
        value.append(np.mean(true[some][row[some] == top]))
    np.testing.assert_allclose(a, np.mean(best))
    # Equal scores across subsets: any of them, so the mean agrees with ties.
    if k in (1, 6):
      np.testing.assert_allclose(b, np.mean(value))
  np.testing.assert_allclose(got.kl[1], np.log(2) - 0.5)


def test_truth_of_the_best_without_ties():
  proxy, truth = R.normal(size=(2, 2, 7))
  got = reward_quality.best_of_n(proxy, truth, (3,))
  value = [
    true[some][np.argmax(row[some])]
    for row, true in zip(proxy, truth, strict=True)
    for some in map(list, itertools.combinations(range(7), 3))
  ]
  np.testing.assert_allclose(
    got.truth[:, 0], np.mean(np.reshape(value, (2, -1)), axis=1)
  )


def test_a_planted_error_is_over_optimised():
  """A few samples are scored far too high: the more, the likelier chosen."""
  truth = R.normal(size=(400, 64))
  hacked = R.random(truth.shape) < 0.05
  truth = np.where(hacked, truth - 3, truth)
  proxy = np.where(hacked, truth + 7, truth)
  sizes = (1, 2, 4, 16, 64)
  got = reward_quality.best_of_n(proxy, truth, sizes)
  assert np.all(np.diff(got.proxy.mean(axis=0)) > 0)
  mean = got.truth.mean(axis=0)
  assert 0 < int(np.argmax(mean)) < len(sizes) - 1
  assert mean[-1] < mean[0]
  honest = reward_quality.best_of_n(truth, truth, sizes)
  assert np.all(np.diff(honest.truth.mean(axis=0)) > 0)


def test_what_has_no_answer_is_refused():
  with errors.raises(ValueError, 'label 40 0'):
    reward_quality.auroc(SCORE, np.ones(40, bool))
  with errors.raises(ValueError, 'chance 0 1'):
    reward_quality.brier(SCORE, LABEL)
  with errors.raises(ValueError, 'bins 0'):
    reward_quality.calibration_error([0.5], [True], bins=0)
  with errors.raises(ValueError, 'n 1 6 7'):
    reward_quality.best_of_n(np.ones((1, 6)), np.ones((1, 6)), (7,))
  with errors.raises(ValueError, 'win none'):
    reward_quality.pair_accuracy([], [])
