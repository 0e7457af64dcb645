"""Horizons that grow: turns by step, and nothing else of the attempts."""

import numpy as np
import pytest

from agentrl import registry
from agentrl.task import fixed, horizon
from agentrl.types import AttemptPlan

PIECE = registry.get('task', 'growing_horizon')
PLAN = AttemptPlan(6, group=4, batch=12, limit=9, seed=3, temperature=0.7)


def turns(step, limit, **options):
  plan = PLAN._replace(limit=limit)
  made = horizon.growing_horizon(plan, {}, step, **options)
  (value,) = set(made.limit.tolist())
  return value


@pytest.mark.parametrize(
  ('step', 'want'), [(0, 10), (99, 10), (100, 20), (199, 20), (200, 30)]
)
def test_the_rounds_of_the_paper(step, want):
  assert turns(step, 30) == want


def test_the_last_period_has_no_end_and_no_share_is_no_turn():
  assert turns(10**6, 30) == 30
  assert turns(0, 1) == 1
  assert turns(0, 5, shares=(0.01,)) == 1
  assert [turns(0, limit) for limit in (3, 6, 9, 10)] == [1, 2, 3, 4]
  assert [turns(s, 8, shares=(0.5, 1.0), every=2) for s in range(4)] == [
    4,
    4,
    8,
    8,
  ]


def test_all_else_is_as_without_it():
  a = horizon.growing_horizon(PLAN, {}, 1)
  b = fixed.fixed(PLAN._replace(limit=3), {}, 1)
  for name in ('task', 'group', 'arm', 'temperature', 'limit'):
    one, other = (getattr(x, name) for x in (a, b))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
  'values', [{'shares': ()}, {'shares': (0.0,)}, {'shares': (1.5,)}]
)
def test_shares_are_in_their_domain(values):
  with pytest.raises(ValueError):
    registry.check_values('task', PIECE, values)
