"""Products of float32: named in the program, unless JAX's setting names one."""

import jax
import jax.extend.core
import jax.numpy as jnp
import pytest

from agentrl import mesh
from agentrl.lab.bench import sampling
from agentrl.learner import update
from agentrl.nn import transformer
from agentrl.run.play import collect
from agentrl.runtime import precision

HIGHEST = (jax.lax.Precision.HIGHEST,) * 2


def products(jaxpr):
  """(dtype of the factors, precision) of every product, inner ones too."""
  for eqn in jaxpr.eqns:
    if eqn.primitive.name in ('dot_general', 'ragged_dot_general'):
      dtype = jnp.result_type(*(x.aval.dtype for x in eqn.invars[:2]))
      yield str(dtype), eqn.params['precision']
    for inner in jax.extend.core.jaxprs_in_params(eqn.params):
      yield from products(inner)


def of_gradient(c: transformer.DecoderConfig, tokens: int):
  def loss(params):
    row = jnp.zeros((2, tokens), jnp.int32)
    hidden = transformer.forward(c, params, row, row)
    return jnp.sum(transformer.logits(params, hidden))

  params = mesh.init(transformer.specs(c), jax.random.key(0))
  return set(products(jax.make_jaxpr(jax.grad(loss))(params).jaxpr))


def decoder(**more) -> transformer.DecoderConfig:
  sizes = dict(vocab=7, width=8, layers=2, heads=2, kv_heads=1, head_dim=4)
  return transformer.DecoderConfig(**sizes, mlp=8, **more)


@pytest.mark.parametrize('tokens', [16, 300])
@pytest.mark.parametrize('experts', [0, 2])
def test_gradients_multiply_float32_as_it_is(tokens, experts):
  """In short rows and long ones, and their experts."""
  c = decoder(experts=experts, top_k=min(1, experts))
  assert of_gradient(c, tokens) == {('float32', HIGHEST)}
  c = decoder(experts=experts, top_k=min(1, experts), dtype='bfloat16')
  statistics = {('float32', HIGHEST)}  # of routers
  assert of_gradient(c, tokens) - statistics == {('bfloat16', None)}


@pytest.mark.slow
def test_rollouts_and_updates_multiply_float32_as_it_is(tmp_path):
  s = sampling.setup(sampling.TINY, str(tmp_path))
  state = update.init(s.algorithm, jax.random.key(0))

  def iterate(state):
    key, params = jax.random.key(1), state.params['policy']
    attempts = sampling.attempts(s)
    batch = collect.rollout_and_score(s, params, attempts, key, state.step)
    return update.update(s.algorithm, state, batch)

  found = set(products(jax.make_jaxpr(iterate)(state).jaxpr))
  assert found == {('float32', HIGHEST)}


def test_the_setting_of_jax_wins():
  x = jnp.ones(3)
  assert precision.of_product(x, x) is jax.lax.Precision.HIGHEST
  assert precision.of_product(x, x.astype(jnp.bfloat16)) is HIGHEST[0]
  assert precision.of_product(x.astype(jnp.bfloat16)) is None
  with jax.default_matmul_precision('bfloat16'):
    assert precision.of_product(x, x) is None
