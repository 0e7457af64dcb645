"""Planted errors: their rates, and that equal contents err alike."""

import numpy as np
import pytest

from agentrl.judge.planted import PlantedError, distort, draws

N = 4000
KEY = np.arange(N) * 7919
PLACE = np.linspace(0.1, 1, N)
LENGTH = np.linspace(0, 900, N)


def wrong(score, **error):
  return distort(score, KEY, LENGTH, PLACE, PlantedError(**error))


def test_no_error_changes_nothing():
  score = np.linspace(-3, 3, N)
  assert wrong(score) is score
  assert wrong(score, delay=9.0) is score


@pytest.mark.parametrize('rate', [0.05, 0.2, 0.4])
def test_flips_and_refusals_have_their_rates(rate):
  score = (np.arange(N) % 2).astype(float)
  flipped = wrong(score, flip=rate) != score
  refused = np.isnan(wrong(score, refusal=rate))
  error = 4 * np.sqrt(rate * (1 - rate) / N)
  assert abs(flipped.mean() - rate) < error
  assert abs(refused.mean() - rate) < error
  # One does not tell of the other.
  assert abs((flipped & refused).mean() - rate**2) < error
  every = wrong(score, flip=1.0)
  np.testing.assert_array_equal(every, 1 - score)


@pytest.mark.parametrize('rate', [0.05, 0.4])
def test_false_positives_have_their_rate_and_nothing_else_changes(rate):
  score = np.where(np.arange(N) % 2, 0.9, 0.2)
  got = wrong(score, false_positive=rate)
  risen = got != score
  assert not risen[1::2].any()
  np.testing.assert_allclose(got[risen], 0.8)
  share, count = risen[::2].mean(), N // 2
  assert abs(share - rate) < 4 * np.sqrt(rate * (1 - rate) / count)
  # Whether a score rises tells nothing of whether it is turned round.
  flipped = wrong(score, flip=rate) != score
  both = (risen & flipped)[::2].mean()
  assert abs(both - rate**2) < 4 * np.sqrt(rate**2 / count)
  np.testing.assert_array_equal(wrong(score, false_positive=1.0)[::2], 0.8)


def test_equal_contents_err_alike_and_seeds_differ():
  score = np.full(N, 0.5)
  one = wrong(score, noise=0.1)
  order = np.random.default_rng(0).permutation(N)
  again = distort(
    score[order],
    KEY[order],
    LENGTH[order],
    PLACE[order],
    PlantedError(noise=0.1),
  )
  np.testing.assert_array_equal(one[order], again)
  assert not np.array_equal(one, wrong(score, noise=0.1, seed=1))
  assert abs(np.std(one) - 0.1) < 0.01


def test_biases_are_their_formulas():
  score = np.full(N, 0.25)
  for n0 in (50.0, 300.0):
    got = wrong(score, length_bias=0.5, length_scale=n0)
    np.testing.assert_allclose(got, 0.25 + 0.5 * LENGTH / (LENGTH + n0))
  got = wrong(score, position_bias=-0.2)
  np.testing.assert_allclose(got, 0.25 - 0.2 * PLACE)
  both = wrong(score, position_bias=1.0, length_bias=1.0)
  assert both.max() == 1.0


def test_what_has_no_score_gets_none():
  score = np.where(np.arange(N) % 3, 0.5, np.nan)
  got = wrong(score, flip=0.5, noise=0.1, length_bias=0.3)
  np.testing.assert_array_equal(np.isnan(got), np.isnan(score))


def test_draws_are_the_same_on_every_machine():
  uniform, normal = draws(np.array([3]), 0)
  np.testing.assert_allclose(uniform, draws(np.array([3, 4]), 0)[0][:1])
  assert normal.shape == (1,)
