"""A step of a role with QK-clip: what is read, what is scaled, what is told."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh, optimizer
from agentrl.model import policy, qk_clip, value
from agentrl.nn import transformer
from agentrl.signal.base import Context
from tests.model.rows import make

SHAPE = transformer.DecoderConfig(
  vocab=20, width=16, layers=1, heads=4, kv_heads=2, head_dim=4, mlp=16
)
N, T = 6, 10


def rows():
  r = np.random.default_rng(0)
  tokens = r.integers(0, SHAPE.vocab, (N, T))
  sampled = r.random((N, T)) < 0.5
  sampled[:, 1] = True
  return make(tokens, sampled)


def setting(tau: float, module=None):
  module = module or policy.module(SHAPE)
  params = mesh.init(module.specs, jax.random.key(0))
  params['layers'] = {
    name: 3 * x if name in 'qk' else x for name, x in params['layers'].items()
  }
  rule = optimizer.OptimizerConfig(lr=0.01, qk_clip=tau)
  opt = optimizer.init(rule, params)
  context = Context({'policy': module}, {'policy': rule}, micro=2)
  grads = jax.tree.map(jnp.ones_like, params)
  return context, params, opt, grads


def largest(context, params):
  apply = jax.jit(context.modules['policy'].apply, static_argnums=2)
  out = apply(params, rows(), qk_clip.NEEDS)
  return np.asarray(out.attention_logit)  # [N, L, H]


def step(context, params, opt, grads, **how):
  @jax.jit
  def run(params, opt, grads, how):
    return qk_clip.step(context, 'policy', grads, opt, params, rows(), **how)

  return run(params, opt, grads, how)


def test_without_qk_clip_it_is_the_step_of_the_optimizer():
  context, params, opt, grads = setting(0.0)
  got = step(context, params, opt, grads)
  run = jax.jit(functools.partial(optimizer.step, context.rules['policy']))
  want = run(grads, opt, params)
  jax.tree.map(np.testing.assert_array_equal, got, want)


@pytest.mark.parametrize('kind', ['policy', 'value'])
def test_after_a_step_no_head_is_over_tau(kind):
  module = {'policy': policy, 'value': value}[kind].module(SHAPE)
  context, params, opt, grads = setting(0.0, module)
  raised, opt, _ = step(context, params, opt, grads)
  before = np.max(largest(context, raised), axis=0)
  tau = float(np.sort(before.ravel())[1])
  context, params, opt, grads = setting(tau, module)
  new, _, metrics = step(context, params, opt, grads)
  after = np.max(largest(context, new), axis=0)
  np.testing.assert_allclose(after, np.minimum(before, tau), rtol=1e-5)
  assert float(metrics['attention_logit_max'][0]) == pytest.approx(
    np.max(before), rel=1e-5
  )
  assert float(metrics['qk_clip_fraction'][0]) == 0.5


def test_only_rows_of_the_step_are_looked_at():
  context, params, opt, grads = setting(1e-3)
  keep = jnp.zeros((N, T), bool).at[1:3].set(True)
  _, _, metrics = step(context, params, opt, grads, keep=keep)
  context, params, opt, grads = setting(0.0)
  moved, *_ = step(context, params, opt, grads)
  want = np.max(largest(context, moved)[1:3])
  assert want < np.max(largest(context, moved))
  assert float(metrics['attention_logit_max'][0]) == pytest.approx(
    want, rel=1e-5
  )


@pytest.mark.parametrize('size', [0.0, np.nan])
def test_without_a_step_no_head_is_scaled(size):
  context, params, opt, grads = setting(1e-3)
  grads = jax.tree.map(lambda x: size * x, grads)
  after, kept, _ = step(context, params, opt, grads)
  jax.tree.map(np.testing.assert_array_equal, (after, kept), (params, opt))
