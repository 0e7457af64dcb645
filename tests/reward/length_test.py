"""The price of length, against the equation."""

import numpy as np

from agentrl import registry
from agentrl.reward import length  # noqa: F401  registers its pieces
from agentrl.types import RewardInputs, Turns


def test_overlong_is_the_equation():
  r = np.random.default_rng(0)
  b, k = 24, 4
  tokens = r.integers(1, 9, (b, k)).astype(np.float32)
  count = 1 + np.arange(b) % k
  valid = np.arange(k)[None] < count[:, None]
  tokens[~valid] = 50.0
  zero = np.zeros((b, k), np.int32)
  turns = Turns(
    reward=zero,
    terms={'tokens': tokens},
    scored=valid,
    valid=valid,
    state=zero,
    node=zero,
    agent=zero,
  )
  hp = {'limit': 20, 'margin': 8, 'scale': 0.5}
  f = registry.bind('reward', 'overlong', hp)
  status = np.zeros(b, np.int32)
  x = RewardInputs(turns=turns, outcome=np.zeros(b), status=status)
  got = np.asarray(f(x))
  want = np.zeros((b, k))
  for i in range(b):
    n = tokens[i, : count[i]].sum()
    price = 0.0 if n <= 12 else -1.0 if n > 20 else (12 - n) / 8
    want[i, count[i] - 1] = 0.5 * price
  np.testing.assert_allclose(got, want, rtol=1e-6)
  assert {0.0, -0.5} < set(np.unique(want))
