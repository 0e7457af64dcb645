"""Which solvers stay: bounds on p, in plain loops."""

import numpy as np
import pytest

import agentrl.curate  # noqa: F401  registers its pieces
from agentrl import registry
from agentrl.testing import batches
from agentrl.types import Agent
from tests.advantage.roles import with_roles

pytestmark = pytest.mark.usefixtures('float64')


@pytest.mark.parametrize(
  ('layout', 'of'), [('packed', 'agreement'), ('turn', 'solved')]
)
def test_solvers_within_the_frontier_and_all_proposers_stay(layout, of):
  story = batches.story()
  laid, p, agent = with_roles(story, layout, of)
  f = registry.bind('curate', 'within_frontier', {'of': of})
  got = f(laid.batch)
  weight = batches.read(got.rows.weight, story, laid)
  scored = np.asarray(got.turns.scored)
  dropped = 0
  for i, turns in enumerate(weight):
    stays = agent[i] == Agent.PROPOSER or 0.3 <= p[i] <= 0.8
    dropped += not stays
    assert all((x == float(stays)).all() for x in turns)
    assert (scored[i, : len(turns)] == stays).all()
  assert 0 < dropped < len(weight)


def test_bounds_are_part_of_it():
  story = batches.story()
  laid, p, agent = with_roles(story, 'history', 'solved')
  low, high = sorted(set(p[agent == Agent.SOLVER]))[1:3]
  f = registry.bind(
    'curate', 'within_frontier', {'of': 'solved', 'low': low, 'high': high}
  )
  kept = np.asarray(f(laid.batch).turns.scored)[: len(p), 0]
  solves = agent == Agent.SOLVER
  np.testing.assert_array_equal(
    kept[solves], ((p >= low) & (p <= high))[solves]
  )
