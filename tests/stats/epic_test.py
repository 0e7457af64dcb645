"""EPIC: its laws, and the expectations in plain loops."""

import itertools

import numpy as np
import pytest

from agentrl.stats import epic
from tests import errors

S, A = 4, 3


def world(seed):
  """Two rewards, D_S, D_A and γ."""
  r = np.random.default_rng(seed)
  rewards = r.normal(size=(2, S, A, S))
  return *rewards, r.random(S) + 0.1, r.random(A) + 0.1, r.choice([0.5, 0.9, 1])


def shaped(reward, potential, gamma):
  return reward + gamma * potential[None, None] - potential[:, None, None]


def loops(reward, states, actions, gamma):
  """Every expectation as a sum over draws of A, S and S'."""
  ds, da = states / states.sum(), actions / actions.sum()
  out = np.zeros(reward.shape)
  for s, a, t in itertools.product(range(S), range(A), range(S)):
    total = reward[s, a, t]
    for x, u, y in itertools.product(range(S), range(A), range(S)):
      chance = ds[x] * da[u] * ds[y]
      total += chance * gamma * reward[t, u, y]
      total -= chance * reward[s, u, y]
      total -= chance * gamma * reward[x, u, y]
    out[s, a, t] = total
  return out


@pytest.mark.parametrize('seed', range(3))
def test_canonical_rewards_in_plain_loops(seed):
  a, _, states, actions, gamma = world(seed)
  got = epic.canonical(a, states, actions, gamma=gamma)
  want = loops(a, states, actions, gamma)
  np.testing.assert_allclose(got, want, atol=1e-13)


@pytest.mark.parametrize('seed', range(3))
def test_shaping_leaves_the_canonical_reward_as_it_is(seed):
  a, _, states, actions, gamma = world(seed)
  potential = np.random.default_rng(seed + 9).normal(size=S) * 10
  want = epic.canonical(a, states, actions, gamma=gamma)
  other = shaped(a, potential, gamma)
  got = epic.canonical(other, states, actions, gamma=gamma)
  np.testing.assert_allclose(got, want, atol=1e-12)
  # With another discount it is not shaping.
  wrong = shaped(a, potential, gamma - 0.3)
  got = epic.canonical(wrong, states, actions, gamma=gamma)
  assert np.abs(got - want).max() > 0.1


def correlation(x, y, w):
  """Pearson's, as it is defined."""
  w = w / w.sum()
  a, b = x - (w * x).sum(), y - (w * y).sum()
  return (w * a * b).sum() / np.sqrt((w * a * a).sum() * (w * b * b).sum())


@pytest.mark.parametrize('seed', range(3))
def test_distance_is_the_equation(seed):
  a, b, states, actions, gamma = world(seed)
  w = np.random.default_rng(seed).random((S, A, S))
  x, y = (loops(r, states, actions, gamma) for r in (a, b))
  independent = np.einsum('i,a,j->iaj', states, actions, states)
  for transitions, weights in ((w, w), (None, independent)):
    got = epic.distance(
      a, b, states, actions, gamma=gamma, transitions=transitions
    )
    want = np.sqrt((1 - correlation(x, y, weights)) / 2)
    assert got == pytest.approx(want, rel=1e-10)


@pytest.mark.parametrize('seed', range(5))
def test_it_is_a_pseudometric_that_scale_and_shaping_do_not_change(seed):
  a, b, states, actions, gamma = world(seed)
  r = np.random.default_rng(seed)
  c, potential = r.normal(size=(S, A, S)), r.normal(size=S)

  def d(x, y):
    return epic.distance(x, y, states, actions, gamma=gamma)

  other = 3.5 * shaped(b, potential, gamma) + 7
  assert d(a, other) == pytest.approx(d(a, b), rel=1e-10)
  assert d(b, other) == pytest.approx(0, abs=1e-7)
  assert d(a, -a) == pytest.approx(1, abs=1e-12)
  assert d(a, b) == d(b, a)
  assert 0 <= d(a, b) <= 1
  assert d(a, c) <= d(a, b) + d(b, c) + 1e-12


def test_pearson_distance_by_hand():
  assert epic.pearson_distance([1, 2, 3], [2, 4, 6]) == pytest.approx(0)
  assert epic.pearson_distance([1, 2, 3], [3, 2, 1]) == pytest.approx(1)
  # ρ = 1/2.
  assert epic.pearson_distance([1, 2, 3], [1, 3, 2]) == pytest.approx(0.5)
  weights = np.array([1.0, 1, 1, 0])
  got = epic.pearson_distance([1, 2, 3, 9], [1, 3, 2, -9], weights)
  assert got == pytest.approx(0.5)
  x = np.random.default_rng(0).normal(size=9)
  for factor in (1e-9, 1e9):
    assert epic.pearson_distance(x, factor * x + factor) < 1e-6


@pytest.mark.parametrize(
  ('call', 'why'),
  [
    (lambda: epic.pearson_distance([1, 1], [1, 2]), ''),
    (lambda: epic.pearson_distance([0.1] * 3, [1, 2, 3]), ''),
    (lambda: epic.pearson_distance([1, 2], [1, 2, 3]), ''),
    (
      lambda: epic.canonical(np.zeros((2, 1, 2)), [1], [1], gamma=1.0),
      '1',
    ),
    (
      lambda: epic.canonical(np.zeros((2, 1, 2)), [1, -1], [1], gamma=1.0),
      '',
    ),
    (
      lambda: epic.canonical(np.zeros((2, 1, 2)), [0, 0], [1], gamma=1.0),
      '',
    ),
  ],
)
def test_what_has_no_distance_is_refused_in_a_sentence(call, why):
  with errors.raises(ValueError, why) as error:
    call()
  assert '\n' not in str(error.value)


def test_pure_shaping_has_no_distance():
  """Its canonical reward is constant."""
  _, b, states, actions, gamma = world(0)
  pure = shaped(np.zeros((S, A, S)), np.arange(S) * 1.0, gamma)
  with pytest.raises(ValueError):
    epic.distance(pure, b, states, actions, gamma=gamma)
