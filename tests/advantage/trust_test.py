"""Advantages by trust, in plain loops."""

import numpy as np
import pytest

from agentrl.advantage import chain
from agentrl.testing import batches
from agentrl.types import Agent
from tests.advantage.roles import with_roles

pytestmark = pytest.mark.usefixtures('float64')
STORY = batches.story()


def advantage(laid, *links):
  credit, _ = chain.stream(batches.links(*links), laid.batch, laid.signals)
  return batches.read(
    chain.token_advantage(credit, laid.batch.rows), STORY, laid
  )


@pytest.mark.parametrize(
  ('layout', 'of'), [('packed', 'agreement'), ('turn', 'solved')]
)
def test_ambiguous_labels_teach_less(layout, of):
  laid, p, agent = with_roles(STORY, layout, of)
  start = 'turn_reward', ('add_token_signal', {'name': 'implicit_prm.token'})
  hp = {'of': of, 'low': 0.3, 'high': 0.8, 'least': 0.6}
  before = advantage(laid, *start)
  after = advantage(laid, *start, ('scale_by_trust', hp))
  factors = set()
  for i, turns in enumerate(before):
    u = min(max((p[i] - 0.3) / 0.5, 0), 1)
    factor = 0.6 + 0.4 * (u if agent[i] == Agent.SOLVER else 1)
    factors.add(round(factor, 6))
    for x, y in zip(turns, after[i], strict=True):
      np.testing.assert_allclose(y, factor * x, rtol=1e-12)
  assert {0.6, 1.0} < factors
