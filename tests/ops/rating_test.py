"""Elo and the weights of rivals, against plain float64."""

import jax
import numpy as np
import pytest

from agentrl.ops import rating


def reference(own, other, scores, known, rate):
  own, other = np.float64(own), np.float64(other)
  for s, counts in zip(scores, known, strict=True):
    e = 1 / (1 + 10 ** ((other - own) / 400))
    if counts:
      own, other = own + rate * (s - e), other - rate * (s - e)
  return own, other


@pytest.mark.parametrize('rate', [32.0, 4.0])
def test_elo_is_that_of_match_after_match(rate):
  rng = np.random.default_rng(0)
  score = rng.choice([0.0, 0.5, 1.0], 200).astype(np.float32)
  known = rng.random(200) < 0.7
  with jax.enable_x64(True):
    got = rating.elo(
      np.float64(1200),
      np.float64(1350),
      score.astype(np.float64),
      known,
      rate=rate,
    )
    want = reference(1200, 1350, score, known, rate)
    np.testing.assert_allclose(got, want, rtol=1e-12)
  single = rating.elo(
    np.float32(1200), np.float32(1350), score, known, rate=rate
  )
  np.testing.assert_allclose(single, want, rtol=1e-5)
  assert sum(want) == pytest.approx(2550)  # what one wins the other loses
  turned = rating.elo(
    np.float32(1200), np.float32(1350), score[::-1], known[::-1], rate=rate
  )
  assert abs(turned[0] - single[0]) > 1e-2  # the order of matches matters


def test_expected_scores():
  assert float(rating.expected(1200.0, 1200.0)) == pytest.approx(0.5)
  assert float(rating.expected(1600.0, 1200.0)) == pytest.approx(10 / 11)
  assert float(rating.expected(1200.0, 1600.0)) == pytest.approx(1 / 11)


def test_pfsp_prefers_who_is_hard_to_beat():
  p = np.array([0.0, 0.25, 0.5, 1.0], np.float32)
  for power in (0.5, 1.0, 2.0):
    want = [(1 - x) ** power for x in p]
    np.testing.assert_allclose(rating.pfsp(p, power=power), want, rtol=1e-6)
  np.testing.assert_allclose(rating.pfsp(p, power=0.0), 1.0)
