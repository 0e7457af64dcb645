"""InfoPO's information stream against plain numpy."""

import batches
import estimators
import jax
import numpy as np
import pytest
from batches import links
from estimators import mates, steps

from agentrl.advantage import chain

STORY = batches.story(seed=8)
FAILED = 9  # of this trajectory the judgements failed


def infopo(s, beta, temperature):
  def value(i, k):
    if i == FAILED:
      return 0.0
    js = [j for j in mates(s, i) if j != FAILED]
    pool = [s.step[j][m] for j, m in steps(s, i)
            if j != FAILED and m < len(s.size[j]) - 1]  # fmt: skip
    last = k == len(s.size[i]) - 1
    x = 0.0 if last else estimators.zscore(s.step[i][k], pool)
    one = [s.outcome[j] for j in js]
    sigma = np.std(one, ddof=1) if len(one) > 1 else 0.0
    gate = 1 / (1 + np.exp(sigma / temperature))
    total = [sum(s.reward[j]) for j in js]
    return estimators.zscore(sum(s.reward[i]), total) + beta * gate * x

  return estimators.spread(s, value)


@pytest.mark.parametrize('layout', ['packed', 'turn'])
def test_advantage_is_the_equation(layout):
  streams = {
    'e': links('episode_return', 'center', 'scale'),
    'i': links('add_signal', 'standardize_followed',
               ('gate_by_spread', {'temperature': 0.5})),
  }  # fmt: skip
  with jax.enable_x64(True):
    laid = batches.lay(STORY, layout, padding=2)
    scored = laid.batch.turns.scored.copy()
    scored[FAILED] = False
    batch = laid.batch.replace(turns=laid.batch.turns.replace(scored=scored))

    @jax.jit
    def f(batch, signals):
      credit, told = chain.advantage(streams, {'i': 0.3}, (), batch, signals)
      return chain.token_advantage(credit, batch.rows), told

    x, told = jax.device_get(f(batch, laid.signals))
  want = batches.flat(infopo(STORY, 0.3, 0.5))
  np.testing.assert_allclose(
    batches.flat(batches.read(x, STORY, laid)), want, rtol=1e-9, atol=1e-12
  )
  total, count = told['i/gate']
  assert 0 < total / count <= 0.5
