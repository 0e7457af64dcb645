"""Streams are summed, weights multiplied, targets merged."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.advantage import chain
from agentrl.types import Credit
from tests import batches, errors
from tests.batches import links

pytestmark = pytest.mark.usefixtures('float64')

STORY = batches.story(seed=1, groups=2)


@pytest.fixture
def laid():
  return jax.tree.map(jnp.asarray, batches.lay(STORY))


def _put(turn=0.0, token=0.0, keep=1.0, **target):
  """A link that adds constants, keeps part of the weight, writes targets."""

  def link(x):
    credit = x.credit.replace(
      turn=x.credit.turn + turn,
      token=x.credit.token + token,
      weight=x.credit.weight * keep,
      target=x.credit.target | target,
    )
    return credit, {'seen': (jnp.sum(credit.turn), jnp.ones(()))}

  return link


def test_a_stream_starts_from_zero(laid):
  credit, metrics = chain.stream([], laid.batch, laid.signals)
  assert metrics == {}
  assert not credit.turn.any()
  assert not credit.token.any()
  np.testing.assert_array_equal(credit.weight, laid.batch.rows.weight)


def test_links_run_in_order(laid):
  def double(x):
    return x.credit.replace(turn=2 * x.credit.turn), {}

  credit, _ = chain.stream([_put(3.0), double], laid.batch, {})
  assert (credit.turn == 6).all()
  credit, _ = chain.stream([double, _put(3.0)], laid.batch, {})
  assert (credit.turn == 3).all()


def test_streams_are_summed_with_their_coefficients(laid):
  streams = {'a': [_put(1.0, 10.0)], 'b': [_put(2.0, 20.0)]}
  coef = {'b': jnp.asarray(0.5)}
  finish = [_put(100.0)]
  credit, metrics = chain.advantage(streams, coef, finish, laid.batch, {})
  assert (credit.turn == 102).all()
  assert (credit.token == 20).all()
  x = chain.token_advantage(credit, laid.batch.rows)
  sampled = np.asarray(laid.batch.rows.sampled)
  np.testing.assert_array_equal(x, np.where(sampled, 122.0, 0))
  assert set(metrics) == {
    'a/seen',
    'a/abs_mean',
    'b/seen',
    'b/abs_mean',
    'post/seen',
    'post/abs_mean',
  }
  total, weight = metrics['post/abs_mean']
  assert float(total / weight) == 122.0


def test_weights_multiply_once(laid):
  """Fractional row weights are not squared by having two streams."""
  rows = laid.batch.rows
  batch = laid.batch.replace(rows=rows.replace(weight=0.5 * rows.weight))
  streams = {'a': [_put(keep=0.5)], 'b': [_put(keep=0.25)]}
  credit, _ = chain.advantage(streams, {}, [_put(keep=0.5)], batch, {})
  np.testing.assert_allclose(credit.weight, rows.weight * 0.5 / 16)


def test_targets_are_merged(laid):
  one = jnp.ones_like(laid.batch.rows.logp)
  streams = {'a': [_put(x=one)], 'b': [_put(y=2 * one)]}
  credit, _ = chain.advantage(streams, {}, [], laid.batch, {})
  assert set(credit.target) == {'x', 'y'}
  streams = {'a': [_put(x=one)], 'b': [_put(x=2 * one)]}
  with errors.raises(ValueError, 'b x'):
    chain.advantage(streams, {}, [], laid.batch, {})


def test_a_coefficient_needs_its_stream(laid):
  with errors.raises(ValueError, 'stpe c.advantage'):
    chain.advantage({'step': []}, {'stpe': 1.0}, [], laid.batch, {})


def test_credit_is_never_differentiated(laid):
  def f(signals):
    bound = links('add_signal', 'center')
    credit, metrics = chain.advantage(
      {'a': bound}, {}, links('add_token_signal'), laid.batch, signals
    )
    return (
      jnp.sum(credit.turn) + jnp.sum(credit.token) + metrics['a/abs_mean'][0]
    )

  grads = jax.jit(jax.grad(f))(laid.signals)
  assert all(not g.any() for g in jax.tree.leaves(grads))


def test_mean_over_the_tokens_of_a_turn():
  batch = batches.lay(batches.story(7), 'history', padding=2).batch
  rows, r = batch.rows, np.random.default_rng(0)
  token = r.normal(size=rows.logp.shape).astype(np.float32)
  turn = r.normal(size=batch.turns.reward.shape).astype(np.float32)
  credit = Credit(turn=turn, token=token, weight=rows.weight, target={})
  got = np.asarray(jax.jit(chain.per_turn)(credit, batch))
  for b, k in np.ndindex(got.shape):
    here = rows.sampled & (rows.traj == b) & (rows.turn == k)
    want = turn[b, k] + np.mean(token[here]) if np.any(here) else 0
    np.testing.assert_allclose(got[b, k], want, rtol=1e-5, atol=1e-6)
