"""Sums of terms over turns that happened, and where a trajectory is paid."""

import numpy as np
import pytest

import agentrl.reward  # noqa: F401  registers its pieces
from agentrl import registry
from agentrl.env import proposals
from agentrl.reward import trajectory
from tests import errors
from tests.reward import ragged

CASE = ragged.make({'a': [[], [2.0], [1.0, -3.0, 0.5]]}, [0.0, 0.25, 1.0])


def test_the_last_turn_is_the_last_that_happened():
  want = [[0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0]]
  np.testing.assert_array_equal(trajectory.last_turn(CASE.turns), want)
  valid = CASE.turns.valid.copy()
  valid[2, 2:] = False, True  # a gap: another agent's turn
  gaps = CASE.turns.replace(valid=valid)
  want[2] = [0, 0, 0, 1]
  np.testing.assert_array_equal(trajectory.last_turn(gaps), want)
  got = trajectory.at_last_turn(np.float32([7, 8, 9]), gaps)
  np.testing.assert_array_equal(got, np.array(want) * [[7], [8], [9]])


def test_a_reward_of_trajectories_is_of_their_last_turns():
  whole = np.float32([7, 8, 9])
  got = trajectory.by_turn(whole, CASE.turns)
  np.testing.assert_array_equal(got, trajectory.at_last_turn(whole, CASE.turns))
  each = np.ones(CASE.turns.valid.shape, np.float32)
  assert trajectory.by_turn(each, CASE.turns) is each
  for wrong in (1.0, each[:, :1], each[:2], each.T):
    with errors.raises(ValueError, '(3, 4) (3,)'):
      trajectory.by_turn(wrong, CASE.turns)


def test_totals():
  got = trajectory.total('a', CASE.inputs)
  np.testing.assert_allclose(got, [0, 2, -1.5])
  got = trajectory.total('outcome', CASE.inputs)
  np.testing.assert_array_equal(got, CASE.outcome)


def test_thresholds_are_reached_to_rounding():
  x = np.float32(0.1) * np.float32(3) - np.float32(1e-7)
  assert trajectory.reaches(x, 0.3)
  assert not trajectory.reaches(np.float32(0.2999), 0.3)


OURS = [
  name
  for name in registry.names('reward')
  if registry.get('reward', name).f.__module__.startswith('agentrl.')
]


@pytest.mark.parametrize('name', OURS)
def test_a_failed_judge_and_others_change_nobody_else(name):
  """Rewards are of single trajectories; links leave out what does not count."""
  names = (
    'env', 'invalid', 'tokens', 'confidence', 'own', 'progress', 'judged',
    'needed', 'needless', 'premature', 'search', 'python', 'calls', 'ruled',
    *proposals.COLUMNS,
  )  # fmt: skip
  draws = dict.fromkeys(names, lambda r, n: r.integers(0, 2, n) * r.random(n))
  case = ragged.random(0, **draws)
  terms = {
    n: np.where(case.turns.valid, x, 0) for n, x in case.turns.terms.items()
  }
  case = case._replace(turns=case.turns.replace(terms=terms))
  got = ragged.pay(name, case)
  np.testing.assert_array_equal(ragged.pay(name, ragged.alone(case)), got)
  order = np.arange(len(case.outcome))[::-1]
  flip = {n: x[order] for n, x in terms.items()}
  turns = case.turns.replace(terms=flip, valid=case.turns.valid[order])
  other = ragged.Ragged(turns, case.outcome[order], {})
  np.testing.assert_array_equal(ragged.pay(name, other), got[order])


def test_who_passes():
  case = ragged.make(
    {'a': [[2.0], [1.0, -3.0], []], 'b': [[1.0], [0.0, 0.0], []]},
    [1.0, 1.0, 0.0],
  )

  def passes(*conditions):
    columns = zip(*conditions, strict=True) if conditions else ((), (), ())
    got = trajectory.passes(case.inputs, *columns)
    return got.tolist()

  assert passes() == [True, True, True]
  assert passes(('a', 1.0, 1.0)) == [True, False, False]
  assert passes(('a', -1.0, 1.0)) == [False, True, False]
  assert passes(('b', -1.0, 0.0)) == [False, True, True]
  assert passes(('outcome', 1.0, 1.0), ('a', 1.0, 0.0)) == [True, False, False]
