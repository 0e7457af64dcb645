"""Prices: by hand, in plain loops, and who pays."""

import numpy as np
import pytest

from agentrl import registry
from agentrl.run.play import collect
from agentrl.types import Batch
from tests.reward import ragged

HAND = ragged.make(
  {'tokens': [[], [100], [100, 200], [500, 600], [100, 200]]},
  [1.0, 1.0, 1.0, 1.0, 0.0],
)


def test_by_hand():
  got = ragged.pay('priced', HAND)
  want = [0, -0.1, -0.3, -0.8, 0]
  np.testing.assert_allclose(got, ragged.at_end(HAND, want), rtol=1e-12)


@pytest.mark.parametrize('due_from', [0.0, 0.3, 1.0])
def test_in_plain_loops(due_from):
  draws = {
    'tokens': lambda r, n: r.integers(1, 30, n),
    'seconds': lambda r, n: r.random(n),
  }
  case = ragged.random(1, **draws)
  got = ragged.pay(
    'priced',
    case,
    terms=('tokens', 'seconds'),
    prices=(0.01, 0.2),
    cap=0.7,
    due_from=due_from,
  )
  want = []
  for i, y in enumerate(case.outcome):
    tokens, seconds = (case.terms[n][i].sum() for n in ('tokens', 'seconds'))
    bill = min(0.7, 0.01 * tokens + 0.2 * seconds)
    want.append(-bill if y >= due_from - 1e-6 else 0.0)
  assert -0.7 in want
  np.testing.assert_allclose(got, ragged.at_end(case, want), rtol=1e-12)


def test_beside_the_outcome_it_is_the_priced_reward():
  """R = correct − min(0.8, 5 cost + latency / 500), due from everybody."""
  outcome, cost, seconds = [1.0, 0.0, 1.0], [0.02, 0.05, 9.0], [30.0, 100, 1]
  batch = Batch.from_turns(
    [[[0]]] * 3, [[[0.0]]] * 3, reward=[[0.0]] * 3, group=[0] * 3
  )
  terms = {'cost': np.array([cost]).T, 'seconds': np.array([seconds]).T}
  batch = batch.replace(
    turns=batch.turns.replace(terms=terms), outcome=np.float32(outcome)
  )
  hp = {'terms': tuple(terms), 'prices': (5.0, 1 / 500), 'due_from': 0.0}
  spec = registry.MethodSpec(
    reward=('outcome', 'priced'), hp={'reward': {'priced': hp}}
  )
  got = collect.score(spec, batch).turns.reward[:, 0]
  np.testing.assert_allclose(got, [1 - 0.16, -0.45, 0.2], rtol=1e-6)
