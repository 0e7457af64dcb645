"""The gradient of a method's terms: coefficients, terms that look at a part."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import agentrl.loss  # noqa: F401  registers the losses
from agentrl import registry
from agentrl.advantage import chain
from agentrl.learner import policy_gradient
from agentrl.learner.algorithm import BEHAVIOUR, POLICY, Algorithm
from agentrl.signal.base import Context
from agentrl.types import Module, Outputs
from tests import batches

pytestmark = pytest.mark.usefixtures('float64')


def apply(params, rows, needs):
  shape = rows.tokens.shape
  return Outputs(
    logp=jnp.full(shape, params['logp']),
    entropy=jnp.full(shape, params['entropy']),
  )


PARAMS = {'logp': jnp.float32(-1.0), 'entropy': jnp.float32(0.5)}


def gradient(micro=2, **settings):
  laid = batches.lay(batches.story(3), 'history', padding=1)
  batch = jax.tree.map(jnp.asarray, laid.batch)
  r = np.random.default_rng(0)
  rows = batch.rows
  span = jnp.asarray(r.integers(0, 2, rows.span.shape), jnp.int8)
  batch = batch.replace(rows=rows.replace(span=span))
  token = jnp.asarray(r.normal(size=rows.tokens.shape))
  credit = chain.zero(batch).replace(token=token)
  params = jax.tree.map(lambda x: x.astype(jnp.float64), PARAMS)
  alg = Algorithm.from_spec(
    registry.MethodSpec(loss=('reinforce', 'entropy')),
    Context({POLICY: Module({}, apply)}, {}, micro),
    **settings,
  )
  return batch, credit, run(alg, params, batch, credit)


def run(alg, params, batch, credit):
  @jax.jit
  def f(params, batch, credit):
    key, mask = jax.random.key(0), batch.rows.sampled
    return policy_gradient.gradient(alg, params, batch, {}, credit, mask, key)

  return f(params, batch, credit)


def test_terms_are_means_times_their_coefficients():
  batch, credit, (grads, (loss, metrics)) = gradient(
    coef={'reinforce': 2.0, 'entropy': 0.25}
  )
  weight = np.where(batch.rows.sampled, credit.weight, 0)
  mean = (weight * credit.token).sum() / weight.sum()
  np.testing.assert_allclose(grads['logp'], -2 * mean, rtol=1e-6)
  np.testing.assert_allclose(grads['entropy'], -0.25, rtol=1e-6)
  np.testing.assert_allclose(loss, 2 * mean - 0.125, rtol=1e-6)
  np.testing.assert_allclose(metrics['loss/entropy'][0], -0.125, rtol=1e-6)


def test_micro_batches_add_up():
  one, few = gradient(micro=1)[2][0], gradient(micro=14)[2][0]
  jax.tree.map(
    lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-6), one, few
  )


def test_a_term_may_look_at_one_span():
  batch, credit, (grads, _) = gradient(select={'reinforce': {'span': 1}})
  weight = np.where(batch.rows.sampled, credit.weight, 0)
  weight = np.where(batch.rows.span == 1, weight, 0)
  mean = (weight * credit.token).sum() / weight.sum()
  np.testing.assert_allclose(grads['logp'], -mean, rtol=1e-6)


def test_only_outputs_that_some_term_reads_are_needed():
  spec = registry.MethodSpec(loss=('ppo', 'entropy'))
  assert policy_gradient.outputs_needed(spec) == ('entropy', 'logp')


def test_replayed_and_quoted_tokens_are_not_fresh():
  batch = batches.lay(batches.story(3), 'history').batch
  source = np.arange(len(batch.outcome), dtype=np.int32) % 2
  batch = jax.tree.map(
    jnp.asarray, batch.replace(ids={**batch.ids, 'source': source})
  )
  rows = batch.rows
  batch = batch.replace(rows=rows.replace(logp=jnp.full(rows.logp.shape, -1.0)))
  fresh = np.asarray(policy_gradient.written(batch))
  traj = np.asarray(rows.traj)
  np.testing.assert_array_equal(
    fresh, np.asarray(rows.sampled) & (source[np.maximum(traj, 0)] == 0)
  )
  assert fresh.any()


def test_without_a_past_the_ratio_is_to_the_learner_itself():
  """In an update of one step: what the sampler computed does not enter."""
  laid = batches.lay(batches.story(3), 'history', padding=1)
  batch = jax.tree.map(jnp.asarray, laid.batch)
  token = jnp.asarray(
    np.random.default_rng(0).normal(size=batch.rows.tokens.shape)
  )
  credit = chain.zero(batch).replace(token=token)

  def gradient_of(loss):
    alg = Algorithm.from_spec(
      registry.MethodSpec(loss=(loss,)),
      Context({POLICY: Module({}, apply)}, {}, 2),
    )
    params = jax.tree.map(lambda x: x.astype(jnp.float64), PARAMS)
    return run(alg, params, batch, credit)

  assert jnp.max(jnp.abs(batch.rows.logp - PARAMS['logp'])) > 0.1
  grads, (_, metrics) = gradient_of('ppo')
  total, weight = metrics['ppo/ratio']
  np.testing.assert_allclose(total / weight, 1.0)
  want, _ = gradient_of('reinforce')
  np.testing.assert_allclose(grads['logp'], want['logp'], rtol=1e-12)
  assert abs(want['logp']) > 1e-3


@pytest.mark.parametrize('anchor', ['', BEHAVIOUR])
def test_the_anchor_of_a_ratio_is_the_update_or_the_sampler(anchor):
  """d/dl of −A exp(l − b) is −A exp(l − b), of −A exp(l − sg(l)) it is −A."""
  laid = batches.lay(batches.story(3), 'history', padding=1)
  batch = jax.tree.map(jnp.asarray, laid.batch)
  r, rows = np.random.default_rng(1), batch.rows
  logp = jnp.where(rows.sampled, -jnp.asarray(r.random(rows.logp.shape)), 0)
  batch = batch.replace(rows=rows.replace(logp=logp))
  token = jnp.asarray(r.normal(size=rows.tokens.shape))
  wide = {'clip_low': np.inf, 'clip_high': np.inf}
  alg = Algorithm.from_spec(
    registry.MethodSpec(loss=('ppo',), hp={'ppo': {'ppo': wide}}),
    Context({POLICY: Module({}, apply)}, {}, 2),
    anchor=anchor,
  )
  params = jax.tree.map(lambda x: x.astype(jnp.float64), PARAMS)
  credit = chain.zero(batch).replace(token=token)
  grads, (_, metrics) = run(alg, params, batch, credit)
  mine, weight = np.asarray(rows.sampled), np.asarray(rows.weight)
  weight = np.where(mine, weight, 0)
  ratio = np.exp(-1.0 - np.asarray(logp)) if anchor else np.ones(logp.shape)
  mean = lambda x: np.sum(weight * x) / np.sum(weight)  # noqa: E731
  np.testing.assert_allclose(grads['logp'], -mean(np.asarray(token) * ratio))
  total, count = metrics['ppo/ratio']
  np.testing.assert_allclose(total / count, mean(ratio))
