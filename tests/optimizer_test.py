"""The optimizer step against optax, and what it does with bad gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from agentrl import mesh, optimizer
from agentrl.optimizer import Rule


def tree(seed: int, size: float = 1.0):
  r = np.random.default_rng(seed)
  make = lambda *shape: jnp.asarray(size * r.normal(size=shape), jnp.float32)  # noqa: E731
  return {'w': make(3, 4), 'deep': {'b': make(4)}}


def run(rule: Rule, steps: int, size: float = 1.0):
  params = tree(0)
  opt = optimizer.init(rule, params)
  for i in range(steps):
    grads = tree(10 + i, size)
    params, opt, _ = optimizer.step(rule, grads, opt, params)
  return params


def reference(transformation, steps: int, size: float = 1.0):
  params = tree(0)
  opt = transformation.init(params)
  for i in range(steps):
    update, opt = transformation.update(tree(10 + i, size), opt, params)
    params = optax.apply_updates(params, update)
  return params


def close(a, b, rtol=1e-6):
  jax.tree.map(
    lambda x, y: np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-7), a, b
  )


@pytest.mark.parametrize('decay', [0.0, 0.1])
def test_is_adamw(decay):
  rule = Rule(lr=0.01, clip=1e9, decay=decay, b1=0.8, b2=0.9, eps=1e-6)
  adamw = optax.adamw(0.01, b1=0.8, b2=0.9, eps=1e-6, weight_decay=decay)
  close(run(rule, 5), reference(adamw, 5))


@pytest.mark.parametrize('size', [0.01, 100.0])
def test_clips_by_the_global_norm(size):
  """Small gradients stay; large ones have norm `clip`. eps makes it visible."""
  rule = Rule(lr=0.1, clip=1.0, eps=1.0)
  both = optax.chain(
    optax.clip_by_global_norm(1.0), optax.adam(0.1, b1=0.9, b2=0.99, eps=1.0)
  )
  close(run(rule, 3, size), reference(both, 3, size))
  free = reference(optax.adam(0.1, b1=0.9, b2=0.99, eps=1.0), 3, size)
  moved = np.max(np.abs(free['w'] - run(rule, 3, size)['w']))
  assert (moved > 1e-3) == (size > 1)


def test_warms_up_linearly():
  """By the updates made: the same gradient moves further each time."""
  rule = Rule(lr=0.1, warmup=4, clip=1e9)
  params, grads = tree(0), tree(1)
  opt = optimizer.init(rule, params)
  full = optimizer.step(rule._replace(warmup=0), grads, opt, params)[0]
  full = full['w'] - params['w']
  for share in (0.25, 0.5, 0.75, 1.0, 1.0):
    new, opt, _ = optimizer.step(rule, grads, opt, params)
    np.testing.assert_allclose(
      new['w'] - params['w'], share * full, rtol=1e-4, atol=1e-7
    )
    params = new


@pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf])
def test_a_gradient_that_is_not_finite_is_skipped(bad):
  rule = Rule(lr=0.1)
  params = tree(0)
  good = tree(1)
  params, opt, told = optimizer.step(
    rule, good, optimizer.init(rule, params), params
  )
  assert [float(x) for x in told['skipped']] == [0.0, 1.0]
  assert float(told['grad_norm'][0]) == pytest.approx(
    float(optax.tree.norm(good)), rel=1e-6
  )
  grads = {**good, 'w': good['w'].at[1, 2].set(bad)}
  after, opt_after, told = jax.jit(optimizer.step, static_argnums=0)(
    rule, grads, opt, params
  )
  jax.tree.map(np.testing.assert_array_equal, after, params)
  jax.tree.map(np.testing.assert_array_equal, opt_after, opt)
  assert [float(x) for x in told['skipped']] == [1.0, 1.0]
  assert [float(x) for x in told['grad_norm']] == [0.0, 0.0]


def test_learns_on_after_a_skipped_one():
  """As if the bad gradient had never been."""
  rule, params = Rule(lr=0.1), tree(0)
  opt = optimizer.init(rule, params)
  bad = jax.tree.map(lambda x: x * np.nan, tree(1))
  params, opt, _ = optimizer.step(rule, bad, opt, params)
  params, opt, _ = optimizer.step(rule, tree(10), opt, params)
  close(params, run(rule, 1))


def wide(seed: int):
  """Large enough to be factored, beside what is not."""
  r = np.random.default_rng(seed)
  make = lambda *shape: jnp.asarray(r.normal(size=shape), jnp.float32)  # noqa: E731
  return {'w': make(2, 136, 128), 'b': make(8)}


def test_adafactor_is_that_of_optax():
  rule = Rule('adafactor', lr=0.01, clip=1e9, decay=0.1)
  want = optax.chain(
    optax.scale_by_factored_rms(),
    optax.clip_by_block_rms(1.0),
    optax.add_decayed_weights(0.1),
    optax.scale(-0.01),
  )
  params = theirs = wide(0)
  opt, state = optimizer.init(rule, params), want.init(params)
  numbers = sum(x.size for x in jax.tree.leaves(opt))
  assert numbers < 0.05 * sum(x.size for x in jax.tree.leaves(params))
  for i in range(3):
    params, opt, _ = optimizer.step(rule, wide(1 + i), opt, params)
    update, state = want.update(wide(1 + i), state, theirs)
    theirs = optax.apply_updates(theirs, update)
  close(params, theirs)
  bad = jax.tree.map(lambda x: x * jnp.nan, wide(9))
  after, kept, told = optimizer.step(rule, bad, opt, params)
  assert float(told['skipped'][0]) == 1
  jax.tree.map(np.testing.assert_array_equal, (after, kept), (params, opt))


@pytest.mark.parametrize('explicit', [True, False])
def test_adafactor_on_a_mesh(explicit):
  """The same numbers; a state that keeps its type from step to step."""
  rule = Rule('adafactor', lr=0.01)
  axes = {'w': ('layers', 'embed', 'mlp'), 'b': ('mlp',)}
  first, grads = wide(0), wide(1)
  specs = {
    k: mesh.Param(x.shape, axes[k], lambda key, shape: jnp.zeros(shape))
    for k, x in first.items()
  }

  @jax.jit
  def two(params, grads):
    def one(carry, _):
      params, opt = carry
      params, opt, _ = optimizer.step(rule, grads, opt, params)
      return (params, opt), None

    carry = params, optimizer.init(rule, params, specs)
    return jax.lax.scan(one, carry, length=2)[0][0]

  want = two(first, grads)
  with jax.set_mesh(mesh.make({'fsdp': 2, 'tensor': 4}, explicit=explicit)):
    lies = mesh.shardings(specs)
    got = two(*(jax.device_put(x, lies) for x in (first, grads)))
  close(got, want, 1e-5)
