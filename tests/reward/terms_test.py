"""What turns earn, in plain loops."""

import numpy as np
import pytest

from agentrl import registry
from agentrl.reward import terms
from agentrl.types import RewardInputs, Turns

B, K = 6, 4
COUNT = 1 + np.arange(B) % K
VALID = np.arange(K)[None] < COUNT[:, None]
ZERO = np.zeros((B, K), np.int32)
R = np.random.default_rng(0)
ENV = R.normal(size=(B, K)).astype(np.float32)
INVALID = (VALID & (R.random((B, K)) < 0.5)).astype(np.float32)
OUTCOME = R.uniform(size=B).astype(np.float32)
TURNS = Turns(
  reward=ZERO,
  terms={'env': ENV, 'invalid': INVALID},
  scored=VALID,
  valid=VALID,
  state=ZERO,
  node=ZERO,
  agent=ZERO,
)
LAST = VALID & (np.arange(K)[None] == COUNT[:, None] - 1)


@pytest.mark.parametrize(
  ('name', 'hp', 'want'),
  [
    (terms.env, {}, ENV),
    (terms.outcome, {}, np.where(LAST, OUTCOME[:, None], 0)),
    (terms.outcome, {'scale': 3.0}, np.where(LAST, 3 * OUTCOME[:, None], 0)),
    (terms.turn_cost, {'cost': 0.25}, np.where(VALID, -0.25, 0)),
    (terms.invalid, {'penalty': 0.5}, -0.5 * INVALID),
  ],
)
def test_is_the_equation(name, hp, want):
  f = registry.bind('reward', name.__name__, hp)
  status = np.zeros(B, np.int32)
  got = f(RewardInputs(turns=TURNS, outcome=OUTCOME, status=status))
  np.testing.assert_allclose(got, want, rtol=1e-6)
