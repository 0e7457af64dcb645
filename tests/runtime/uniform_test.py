"""Uniform numbers of a host."""

import numpy as np
import pytest

from agentrl.runtime import uniform
from agentrl.runtime.uniform import UniformStream

WANTED = (0.3421827847423347, 0.5765144536585864)


def test_numbers_of_today_are_those_of_tomorrow():
  """Runs that go on must draw what they would have drawn."""
  got = uniform.draw(3, 7, (2, 2), UniformStream.TASKS)
  words = np.random.Philox(key=[3, 7]).random_raw(4)
  np.testing.assert_array_equal(got.ravel() * 2**53, (words >> 11) + 0.5)
  np.testing.assert_allclose(
    uniform.draw(0, 0, (2,), UniformStream.LENGTHS), WANTED, rtol=1e-15
  )


def test_each_stream_seed_and_step_has_its_own():
  cases = [(s, t, k) for s in (0, 1) for t in (0, 1) for k in UniformStream]
  seen = {tuple(uniform.draw(s, t, (3,), k)) for s, t, k in cases}
  assert len(seen) == len(cases)


@pytest.mark.parametrize('stream', UniformStream)
def test_they_are_uniform_inside_of_the_interval(stream):
  u = uniform.draw(5, 11, (20_000,), stream)
  assert u.min() > 0
  assert u.max() < 1
  count, _ = np.histogram(u, bins=10, range=(0, 1))
  assert np.square(count - 2000).sum() / 2000 < 30  # chi-squared, 9 degrees


def test_nothing_is_drawn_of_nothing():
  assert uniform.draw(0, 0, (0, 3), UniformStream.PLACES).shape == (0, 3)


@pytest.mark.parametrize('n', [0, 1, 7])
def test_a_permutation_has_each_once(n):
  assert sorted(uniform.permutation(n, 3, 1).tolist()) == list(range(n))


def test_permutations_of_today_are_those_of_tomorrow():
  words = np.random.Philox(np.random.SeedSequence([3, 1])).random_raw(9)
  want = np.argsort(words, kind='stable').tolist()
  assert uniform.permutation(9, 3, 1).tolist() == want
  assert uniform.permutation(9, 3, 2).tolist() != want
