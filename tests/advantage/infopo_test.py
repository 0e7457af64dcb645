"""Links of InfoPO, by hand: what the next turn tells, and when it is heard."""

import numpy as np
import pytest

from agentrl.types import Credit, LinkInputs
from tests import batches
from tests.advantage import one_token_turns

pytestmark = pytest.mark.usefixtures('float64')


@pytest.mark.parametrize(
  ('outcome', 'spread'), [([1, 1], 0.0), ([0, 1], 0.5**0.5)]
)
def test_half_is_left_where_all_outcomes_are_equal(outcome, spread):
  batch = one_token_turns.make_batch([[float(x)] for x in outcome])
  x = np.array([[4.0], [-2.0]])
  (link,) = batches.links(('gate_by_spread', {'temperature': 0.25}))
  credit = Credit(
    turn=x, token=np.zeros((2, 1)), weight=np.ones((2, 1)), target={}
  )
  credit, metrics = link(LinkInputs(batch=batch, credit=credit, signals={}))
  gate = 1 / (1 + np.exp(spread / 0.25))
  np.testing.assert_allclose(credit.turn, gate * x)
  total, count = metrics['gate']
  np.testing.assert_allclose(total / count, gate)
