"""SPA's contributions: whose they are, what they add up to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import optimizer, registry
from agentrl.learner import update
from agentrl.model import policy, value
from agentrl.signal import progress
from agentrl.signal.base import Context
from tests import batches
from tests.signal.implicit_prm_test import SHAPE, make_batch

STORY = batches.story(seed=41, groups=2, members=3)


def _by_hand(s):
  """Contributions [trajectory][turn], the loss, d loss / d c of each."""
  c = [[x[-1] for x in turns] for turns in s.token['value']]
  gap = [sum(x) - r for x, r in zip(c, s.outcome, strict=True)]
  n = len(gap)
  return c, sum(x * x for x in gap) / n, [2 * x / n for x in gap]


@pytest.mark.usefixtures('float64')
@pytest.mark.parametrize('layout', batches.BY_DAY)
def test_loss_and_gradient(layout):
  laid = batches.lay(STORY, layout, padding=2)
  c, loss, slope = _by_hand(STORY)

  def f(value):
    made = progress.contributions(value, laid.batch)
    return progress.sum_error(made, laid.batch), made

  v = jnp.asarray(laid.tokens['value'])
  (got, made), grad = jax.jit(jax.value_and_grad(f, has_aux=True))(v)
  np.testing.assert_allclose(got, loss)
  for i, row in enumerate(c):
    np.testing.assert_allclose(made[i, : len(row)], row)
    assert not np.any(made[i, len(row) :])
  assert not np.any(made[len(c) :])
  told = batches.read(grad, STORY, laid)
  for i, turns in enumerate(told):
    for x in turns:
      want = np.where(np.arange(len(x)) == len(x) - 1, slope[i], 0)
      np.testing.assert_allclose(x, want, atol=1e-12)
  assert not np.asarray(grad)[~laid.batch.rows.sampled].any()


def test_it_learns_to_add_up_to_the_outcome():
  """And scores before it has learned."""
  head = value.module(SHAPE, 1, 'stopped')
  batch = make_batch()
  context = Context(
    {'policy': policy.module(SHAPE), 'progress': head},
    {
      'policy': optimizer.OptimizerConfig(),
      'progress': optimizer.OptimizerConfig(lr=0.1),
    },
    micro=4,
  )
  learner = update.Algorithm.from_spec(
    spec=registry.MethodSpec(), context=context
  )
  state = update.init(learner, jax.random.key(0))
  signal = progress.progress(context, steps=200)
  assert signal.order == 'score_then_update'
  score = jax.jit(lambda state: signal.score(state, batch, {}))
  first, told = score(state)
  assert not np.any(first['progress'])
  assert float(told['progress/error'][0]) == pytest.approx(0.5)
  state, _ = jax.jit(lambda s: signal.update(s, batch, {}, None))(state)
  fields, told = score(state)
  assert float(told['progress/error'][0]) < 0.02
  truth = batch.turns.terms | {'progress': 2 * fields['progress']}
  known = batch.replace(turns=batch.turns.replace(terms=truth))
  _, told = jax.jit(lambda state: signal.score(state, known, {}))(state)
  assert float(told['progress/truth_correlation'][0]) == pytest.approx(1.0)
  np.testing.assert_allclose(
    np.sum(fields['progress'], axis=1), batch.outcome, atol=0.3
  )
