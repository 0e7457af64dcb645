"""Held-out success, counted by hand from what a made-up `play` gives."""

import math

import jax
import numpy as np
import pytest

from agentrl import evaluate
from agentrl.rollout import record as record_lib
from agentrl.stats import intervals
from agentrl.types import Status

TASKS = np.array([7, 9, 4])  # go round: 7 9 4 7 | 9 4 7 9 | 4 7 ...
SOLVED, FAILED, LIMIT = Status.SOLVED, Status.FAILED, Status.TURN_LIMIT
# Task -> score, turns, status.
ENDS = {7: (1.0, 2, SOLVED), 9: (0.25, 5, LIMIT), 4: (0.0, 1, FAILED)}


class Player:
  """Ends as the task says; writes down what it was arguments."""

  def __init__(self, ends):
    self.ends, self.attempts, self.keys = ends, [], []

  def __call__(self, attempts, key):
    self.attempts.append(attempts)
    self.keys.append(tuple(np.asarray(jax.random.key_data(key)).tolist()))
    score, turns, status = (
      np.array([self.ends[t][i] for t in attempts.task.tolist()])
      for i in range(3)
    )
    empty = record_lib.empty(len(score), 6, 1, 1, ())
    return empty.replace(
      outcome=score.astype(np.float32),
      valid=np.arange(6)[None] < turns[:, None],
      action=np.where(np.arange(6) == 1, -1, 0) + np.zeros_like(turns)[:, None],
      status=status.astype(np.int32),
    )


def run_evaluation(ends=None, **changes):
  play = Player(ends or ENDS)
  sizes = dict(episodes=10, batch=4, limit=5, temperature=0.3) | changes
  metrics, last = evaluate.evaluate(play, TASKS, key=jax.random.key(5), **sizes)
  return play, metrics, last


def test_every_number_is_that_of_the_first_ten():
  """7 four times, 9 and 4 three times each; two more are played for nothing."""
  play, metrics, (record, attempts) = run_evaluation()
  n = 10
  solved = [task == TASKS[0] for task in np.resize(TASKS, n)]
  low, high = intervals.clustered(solved, np.resize(np.arange(len(TASKS)), n))
  assert metrics == pytest.approx(
    {
      'eval/success': 0.4,
      'eval/score': (4 * 1 + 3 * 0.25) / n,
      'eval/ci_low': low,
      'eval/ci_high': high,
      'eval/solved': 4,
      'eval/episodes': 10,
      'eval/unscored': 0,
      'eval/tasks': 3,
      'eval/turns': (4 * 2 + 3 * 5 + 3 * 1) / n,
      # The second of the turns, where there are two.
      'eval/invalid': (4 + 3) / (4 * 2 + 3 * 5 + 3 * 1),
      'eval/turns_solved': 2.0,
      'eval/ended/solved': 0.4,
      'eval/ended/turn_limit': 0.3,
      'eval/ended/failed': 0.3,
    },
    rel=1e-6,
  )
  assert len(play.attempts) == 3
  assert attempts is play.attempts[-1]
  assert record.outcome.tolist() == [0.0, 1.0, 0.25, 0.0]


def test_tasks_go_round_alone_in_their_groups():
  play, _, _ = run_evaluation()
  order = np.concatenate([x.task for x in play.attempts]).tolist()
  assert order == [7, 9, 4] * 4
  for x in play.attempts:
    assert x.group.tolist() == [0, 1, 2, 3]
    assert x.limit.tolist() == [5] * 4
    np.testing.assert_allclose(x.temperature, 0.3)


def test_calls_have_keys_of_their_own_and_repeat():
  play, _, _ = run_evaluation()
  assert len(set(play.keys)) == 3
  assert run_evaluation()[0].keys == play.keys


def test_without_a_success_nothing_is_said_of_its_turns():
  ends = dict.fromkeys(TASKS.tolist(), (0.0, 4, LIMIT))
  _, metrics, _ = run_evaluation(ends, episodes=4)
  assert metrics['eval/success'] == metrics['eval/ci_low'] == 0
  assert metrics['eval/ended/turn_limit'] == 1
  assert not {'eval/turns_solved', 'eval/ended/solved'} & metrics.keys()


# One environment broke in either call; the last call has a surplus of two.
CALLS = (
  (
    [1, 0, 1, 1],
    [Status.SOLVED, Status.ENV_ERROR, Status.SOLVED, Status.SOLVED],
  ),
  (
    [0, 0, 1, 1],
    [Status.FAILED, Status.ENV_ERROR, Status.SOLVED, Status.SOLVED],
  ),
)


def _found(calls):
  return [
    evaluate.Ended(
      np.float32(outcome),
      np.array([2, 9, 3, 4]),
      np.array(status),
      {'price': np.array([0.5, 90.0, 1.5, 2.0])},
      np.array([1, 9, 0, 2]),
    )
    for outcome, status in calls
  ]


def test_an_episode_whose_environment_broke_is_none():
  got = evaluate.measure(_found(CALLS), 6, tasks=3)
  assert (got['eval/solved'], got['eval/episodes']) == (3, 4)
  assert got['eval/unscored'] == 2
  assert got['eval/success'] == got['eval/score'] == 0.75
  # Two of the episodes of tasks 0, 1, 2, 0, 1, 2 broke.
  ends = intervals.clustered([1, 1, 1, 0], [0, 2, 0, 1])
  assert (got['eval/ci_low'], got['eval/ci_high']) == ends
  assert got['eval/turns'] == pytest.approx((2 + 3 + 4 + 2) / 4)
  assert got['eval/invalid'] == pytest.approx((1 + 0 + 2 + 1) / (2 + 3 + 4 + 2))
  assert got['eval/turns_solved'] == 3
  assert got['eval/total/price'] == pytest.approx((0.5 + 1.5 + 2 + 0.5) / 4)
  assert got['eval/ended/env_error'] == pytest.approx(2 / 6)


def test_where_all_broke_nothing_is_known():
  broken = ([1, 1, 1, 1], [Status.ENV_ERROR] * 4)
  got = evaluate.measure(_found([broken]), 4, tasks=3)
  assert (got['eval/episodes'], got['eval/unscored']) == (0, 4)
  assert math.isnan(got['eval/success'])
  assert (got['eval/ci_low'], got['eval/ci_high']) == (0, 1)


def test_columns_are_summed_over_the_turns_that_happened():
  record = record_lib.empty(2, 3, 1, 1, ('price',), np).replace(
    valid=np.array([[True, True, False], [True, False, False]]),
    columns={'price': np.array([[1.0, 2.0, 9.0], [4.0, 9.0, 9.0]])},
  )
  got = evaluate.ended(record)
  assert got.totals['price'].tolist() == [3.0, 4.0]
  assert got.turns.tolist() == [2, 1]
