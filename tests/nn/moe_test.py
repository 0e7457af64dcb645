"""Experts token by token, and what routers tell of themselves."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh
from agentrl.nn import moe, transformer

SHAPE = transformer.DecoderConfig(
  vocab=16,
  width=8,
  layers=2,
  heads=2,
  kv_heads=2,
  head_dim=4,
  mlp=12,
  experts=4,
  top_k=2,
)


routed = jax.jit(transformer.routed, static_argnums=0)


def parameters(shape=SHAPE):
  return mesh.init(transformer.specs(shape), jax.random.key(0))


def rows():
  tokens = jax.random.randint(jax.random.key(1), (4, 6), 0, SHAPE.vocab)
  seg = jnp.zeros((4, 6), jnp.int32).at[1, 4:].set(-1).at[3].set(-1)
  return tokens, seg


def test_weights_of_the_chosen():
  logits = jnp.log(jnp.array([[0.5, 0.1, 0.3, 0.1], [0.2, 0.6, 0.05, 0.15]]))
  weight, expert = moe.route(logits, 2, unit=False)
  np.testing.assert_array_equal(expert, [[0, 2], [1, 0]])
  np.testing.assert_allclose(weight, [[0.5, 0.3], [0.6, 0.2]], rtol=1e-5)
  weight, _ = moe.route(logits, 2, unit=True)
  np.testing.assert_allclose(
    weight, [[5 / 8, 3 / 8], [3 / 4, 1 / 4]], rtol=1e-5
  )


@pytest.mark.parametrize(
  'layers', [2, pytest.param(9, marks=pytest.mark.nightly)]
)
def test_routing_counts_tokens_and_adds_over_rows(layers):
  """Padding is not counted; the sum over rows is that of the batch."""
  shape = dataclasses.replace(SHAPE, layers=layers)
  params, (tokens, seg) = parameters(shape), rows()
  hidden, told = routed(shape, params, tokens, seg)
  live = int(jnp.sum(seg >= 0))
  np.testing.assert_array_equal(told.tokens, [live] * layers)
  assert told.chosen.shape == told.prob.shape == (layers, 4)
  np.testing.assert_allclose(jnp.sum(told.chosen, 1), [2 * live] * layers)
  np.testing.assert_allclose(jnp.sum(told.prob, 1), [live] * layers, rtol=1e-5)
  assert hidden.shape == (4, 6, shape.width)
  parts = [
    routed(shape, params, tokens[i : i + 2], seg[i : i + 2])[1] for i in (0, 2)
  ]
  for whole, *part in zip(told, *parts, strict=True):
    np.testing.assert_allclose(whole, sum(part), rtol=1e-5, atol=1e-5)


def test_balance_is_one_when_tokens_are_spread_evenly():
  even = moe.Routing(
    chosen=jnp.full((3, 4), 10.0),
    prob=jnp.full((3, 4), 5.0),
    tokens=jnp.full(3, 20.0),
  )
  np.testing.assert_allclose(moe.balance(even, top_k=2), 1.0)
  collapsed = even._replace(
    chosen=jnp.zeros((3, 4)).at[:, :2].set(20.0),
    prob=jnp.zeros((3, 4)).at[:, 0].set(20.0),
  )
  np.testing.assert_allclose(moe.balance(collapsed, top_k=2), 2.0)


def test_a_dense_model_routes_nothing():
  shape = dataclasses.replace(SHAPE, experts=0)
  told = jax.eval_shape(
    lambda p: transformer.routed(shape, p, *rows())[1],
    mesh.abstract(transformer.specs(shape)),
  )
  assert told is None


@pytest.mark.nightly
def test_no_expert_and_no_router_is_left_without_gradient():
  params, (tokens, seg) = parameters(), rows()

  @jax.jit
  def loss(params):
    hidden, told = transformer.routed(SHAPE, params, tokens, seg)
    return jnp.sum(hidden**3) + moe.balance(told, SHAPE.top_k)

  grads = jax.grad(loss)(params)['layers']
  for name in ('router', 'gate', 'up', 'down'):
    size = jnp.sum(jnp.abs(grads[name]), axis=(-2, -1))
    assert bool(jnp.all(size > 0)), name


@pytest.mark.parametrize('sizes', [{'expert': 2, 'tensor': 2}], ids=str)
def test_a_mesh_changes_nothing(sizes):
  tokens, seg = rows()
  want, _ = routed(SHAPE, parameters(), tokens, seg)
  with jax.set_mesh(mesh.make(sizes)):
    put = (
      mesh.with_logical_sharding(tokens, 'batch', None),
      mesh.with_logical_sharding(seg, 'batch', None),
    )
    got, _ = routed(SHAPE, parameters(), *put)
  np.testing.assert_allclose(got, want, atol=1e-5, rtol=1e-5)
