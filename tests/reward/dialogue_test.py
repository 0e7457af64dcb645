"""Clarifications: by hand, in plain loops, and no life on questions."""

import numpy as np
import pytest

import agentrl.reward  # noqa: F401  registers its pieces
from agentrl import registry
from tests import errors
from tests.reward import ragged

NAMES = ('needed', 'needless', 'premature')


def test_by_hand():
  """Two slots: two needed questions pay, a third does not."""
  case = ragged.make(
    {
      'needed': [[1, 0, 1, 1], [0], []],
      'needless': [[0, 1, 0, 0], [0], []],
      'premature': [[0, 0, 0, 0], [1], []],
    },
    [1.0, 0.0, 0.0],
  )
  got = ragged.pay(
    'clarification',
    case,
    slots=2,
    bonus=0.6,
    needless_cost=0.2,
    premature_cost=0.4,
    turn_cost=0.01,
  )
  want = np.zeros(case.turns.valid.shape)
  want[0, :4] = 0.29, -0.21, 0.29, -0.01
  want[1, 0] = -0.41
  np.testing.assert_allclose(got, want, atol=1e-12)


@pytest.mark.parametrize('seed', range(3))
def test_in_plain_loops(seed):
  case = ragged.random(
    seed, **dict.fromkeys(NAMES, lambda r, n: r.integers(0, 3, n))
  )
  got = ragged.pay('clarification', case)
  want = np.zeros(case.turns.valid.shape)
  paid_all = 0
  for i in range(len(case.outcome)):
    left = 3
    turns = zip(*(case.terms[n][i] for n in NAMES), strict=True)
    for k, (needed, needless, premature) in enumerate(turns):
      paid = min(needed, left)
      left -= paid
      want[i, k] = 0.5 / 3 * paid - 0.2 * needless - 0.2 * premature - 0.01
    paid_all += left == 0
  assert paid_all > 3
  np.testing.assert_allclose(got, want, atol=1e-12)


@pytest.mark.parametrize(
  'hp', [{'bonus': 1.0}, {'slots': 0}, {'turn_cost': -0.1}]
)
def test_a_bonus_worth_the_task_is_refused(hp):
  piece = registry.get('reward', 'clarification')
  with errors.raises(ValueError, next(iter(hp))):
    registry.check_values('reward', piece, hp)
