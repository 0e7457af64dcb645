"""Shaping: by hand, in plain loops, and its discounted sum."""

import itertools

import numpy as np
import pytest

import agentrl.reward  # noqa: F401  registers its pieces
from tests.reward import ragged


def normal(r, n):
  return 3 * r.normal(size=n)


def shaped(after, gamma, start, final):
  """γ Φ_{k+1} − Φ_k of one trajectory, whose last Φ counts `final` times."""
  phi = [start, *after]
  if len(after):
    phi[-1] *= final
  # Only the last state has another Φ, and nothing begins there.
  return [gamma * y - x for x, y in itertools.pairwise(phi)]


def test_by_hand():
  case = ragged.make({'own': [[], [2.0], [1.0, 4.0, 2.0]]}, [0, 0, 1])
  got = ragged.pay('potential', case, gamma=0.5, start=1.0)
  want = [[0] * 4, [-1, 0, 0, 0], [-0.5, 1, -4, 0]]
  np.testing.assert_allclose(got, want)


@pytest.mark.parametrize('final', [0.0, 0.3, 1.0])
def test_in_plain_loops(final):
  case = ragged.random(0, own=normal, progress=normal)
  hp = {'gamma': 0.9, 'final': final}
  got = ragged.pay('potential', case, start=0.7, **hp)
  summed = ragged.pay('potential_of_changes', case, **hp)
  for i, n in enumerate(case.turns.valid.sum(1)):
    want = shaped(case.terms['own'][i], 0.9, 0.7, final)
    np.testing.assert_allclose(got[i, :n], want, rtol=1e-9)
    after = np.cumsum(case.terms['progress'][i])
    want = shaped(after, 0.9, 0.0, final)
    np.testing.assert_allclose(summed[i, :n], want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize('gamma', [0.0, 0.9, 1.0])
@pytest.mark.parametrize('start', [0.0, -1.5])
def test_the_discounted_sum_is_minus_the_first_potential(gamma, start):
  """Whatever the potentials: no comparison of policies changes."""
  case = ragged.random(1, own=normal, progress=normal)
  happened = case.turns.valid.any(1)
  weight = gamma ** np.arange(case.turns.valid.shape[1])
  got = ragged.pay('potential', case, gamma=gamma, start=start) @ weight
  np.testing.assert_allclose(got, np.where(happened, -start, 0), atol=1e-12)
  got = ragged.pay('potential_of_changes', case, gamma=gamma) @ weight
  np.testing.assert_allclose(got, 0, atol=1e-12)


def test_turns_of_others_in_between_are_passed_over():
  case = ragged.make({'own': [[1.0, 7.0, 3.0]]}, [1])
  valid = case.turns.valid.copy()
  valid[0, 1] = False
  case = case._replace(turns=case.turns.replace(valid=valid))
  got = ragged.pay('potential', case, gamma=0.5)
  np.testing.assert_allclose(got, [[0.5, 0, -1.0, 0]])
