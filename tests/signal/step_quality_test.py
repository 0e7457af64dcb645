"""Correlations with what is known of turns, and what is left of a reward."""

import jax
import numpy as np
import pytest

from agentrl.signal import step_quality
from tests import batches


def test_correlation_is_pearsons_of_what_weighs():
  r = np.random.default_rng(0)
  x, y = r.normal(size=(2, 6, 4))
  y += 2 * x
  weight = (r.random((6, 4)) < 0.6).astype(float)
  used = weight > 0
  got = step_quality.correlation(3 * x + 1, y, weight)
  np.testing.assert_allclose(
    got, np.corrcoef(x[used], y[used])[0, 1], rtol=1e-5
  )
  assert step_quality.correlation(np.ones_like(x), y, weight) == 0


def test_constant_values_have_no_standard():
  one = np.ones((2, 3), np.float32)
  assert not np.asarray(step_quality.standardized(one, one)).any()


def test_an_error_is_what_least_squares_leave():
  r = np.random.default_rng(1)
  x, truth = r.normal(size=(2, 5, 4))
  x += 0.5 * truth
  weight = (r.random((5, 4)) < 0.7).astype(float)
  used = weight > 0
  z = [(y[used] - y[used].mean()) / y[used].std() for y in (x, truth)]
  want = z[0] - np.polyfit(z[1], z[0], 1)[0] * z[1]
  got = step_quality.error(x, truth, weight)
  np.testing.assert_allclose(np.asarray(got)[used], want, atol=1e-5)


@pytest.mark.parametrize('terms', [(), ('truth',), ('progress', 'truth')])
def test_the_truths_that_are_there_are_measured(terms):
  """Over the turns that count, each by its own name."""
  laid = batches.lay(batches.story(seed=3), 'turn', padding=1)
  turns, r = laid.batch.turns, np.random.default_rng(0)
  x, *columns = r.normal(size=(1 + len(terms), *turns.valid.shape))
  terms = dict(zip(terms, columns, strict=True))
  batch = laid.batch.replace(turns=turns.replace(terms=terms))
  phi, old = (np.float32(laid.tokens[x]) for x in ('logp', 'old_logp'))
  metrics = jax.device_get(step_quality.summary(x, phi, old, batch))
  on = turns.valid
  for column, name in step_quality.TRUTHS.items():
    assert (name in metrics) == (column in terms)
    if column in terms:
      want = np.corrcoef(x[on], terms[column][on])[0, 1]
      np.testing.assert_allclose(metrics[name][0], want, rtol=1e-4)
