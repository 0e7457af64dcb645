"""PRIME's other losses of a PRM, against loops in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.signal import preference
from tests.signal.implicit_prm_test import make_batch

pytestmark = pytest.mark.usefixtures('float64')

NAMES = ('detached', 'bon_outcome', 'bon_score')
OUTCOME = np.array([1, 0, 0.3, 1, 1, 0])  # group 0: one success; 1: two
GROUP = [0, 0, 0, 1, 1, 1]


def _batch(outcome=OUTCOME):
  """The last trajectory but one never happened."""
  made = make_batch()
  valid = np.asarray(made.turns.valid).copy()
  valid[4] = False
  turns = made.turns.replace(valid=jnp.asarray(valid))
  return made.replace(turns=turns, outcome=jnp.asarray(outcome))


def _steps(seed=0):
  return jnp.asarray(np.random.default_rng(seed).normal(size=(6, 3)))


def _by_hand(name, step, still, outcome=OUTCOME):
  """`still`: the step rewards that targets and weights are made of."""
  batch = _batch(outcome)
  valid = np.asarray(batch.turns.valid)
  q, q_still = ((np.asarray(x) * valid).sum(1) for x in (step, still))
  live = [i for i in range(6) if valid[i].any()]
  total = 0.0
  for i in live:
    mates = [j for j in live if GROUP[j] == GROUP[i]]
    won = outcome[i] > 0.5
    others = [
      q_still[j]
      for j in mates
      if (outcome[j] < outcome[i] if won else outcome[j] > outcome[i])
    ]
    margin = (q[i] - np.mean(others or [0.0])) * (1 if won else -1)
    weight = 1.0
    if name != 'detached':
      x = outcome if name == 'bon_outcome' else q_still
      share = np.mean([x[j] <= x[i] for j in mates])
      weight = len(mates) * share ** (len(mates) - 1)
    total += weight * np.log1p(np.exp(-margin))
  return total / len(live)


def _loss(name, outcome=OUTCOME):
  f = preference.objective(name, 'all_pairs', 'sum')
  return lambda step: f(step, _batch(outcome))[0]


@pytest.mark.parametrize('name', NAMES)
def test_value_and_gradient(name):
  """The gradient is that with targets and weights held still."""
  step = _steps()
  value, grad = jax.value_and_grad(_loss(name))(step)
  np.testing.assert_allclose(value, _by_hand(name, step, step), rtol=1e-6)
  h = 1e-5
  want = np.zeros((6, 3))
  for at in np.ndindex(6, 3):
    way = np.zeros((6, 3))
    way[at] = h
    up, down = (_by_hand(name, step + s * way, step) for s in (1, -1))
    want[at] = (up - down) / (2 * h)
  np.testing.assert_allclose(grad, want, atol=1e-6)
  # If the targets moved along, it would be another gradient.
  up, down = (step.at[0, 0].add(s * h) for s in (1, -1))
  moving = (_by_hand(name, up, up) - _by_hand(name, down, down)) / (2 * h)
  assert abs(moving - grad[0, 0]) > 1e-3


def test_a_group_without_a_contrast_is_compared_with_zero():
  outcome = np.ones(6)
  step = _steps(1)
  valid = np.asarray(_batch().turns.valid)
  q = (np.asarray(step) * valid).sum(1)[valid.any(1)]
  got = _loss('detached', outcome)(step)
  np.testing.assert_allclose(got, np.mean(np.log1p(np.exp(-q))), rtol=1e-6)


def test_of_equals_best_of_n_weighs_all_by_n():
  """A constant group: every one is no worse than all, so n 1^(n - 1)."""
  got = preference.best_of_n(jnp.zeros(6), _batch())
  np.testing.assert_allclose(got, [3, 3, 3, 2, 1, 2])
