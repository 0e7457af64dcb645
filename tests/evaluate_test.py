"""Held-out success: who is an episode, and what stands beside."""

import math

import numpy as np
import pytest

from agentrl import evaluate, statistics
from agentrl.types import Status

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
      np.float32(outcome), np.array([2, 9, 3, 4]), np.array(status)
    )
    for outcome, status in calls
  ]


def test_an_episode_whose_environment_broke_is_none():
  got = evaluate.measure(_found(CALLS), 6, tasks=3)
  assert (got['eval/solved'], got['eval/episodes']) == (3, 4)
  assert got['eval/unscored'] == 2
  assert got['eval/success'] == got['eval/score'] == 0.75
  assert (got['eval/low'], got['eval/high']) == statistics.wilson(3, 4)
  assert got['eval/turns'] == pytest.approx((2 + 3 + 4 + 2) / 4)
  assert got['eval/turns_solved'] == 3
  assert got['eval/ended/env_error'] == pytest.approx(2 / 6)


def test_where_all_broke_nothing_is_known():
  broken = ([1, 1, 1, 1], [Status.ENV_ERROR] * 4)
  got = evaluate.measure(_found([broken]), 4, tasks=3)
  assert (got['eval/episodes'], got['eval/unscored']) == (0, 4)
  assert math.isnan(got['eval/success'])
  assert (got['eval/low'], got['eval/high']) == (0, 1)
