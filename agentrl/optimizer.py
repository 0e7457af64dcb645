"""The optimizer of one role, its state sharded as the parameters are."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from agentrl import mesh
from agentrl.types import Metrics


class Rule(NamedTuple):
  """How a role is trained: clip, direction, decay, linear warm-up."""

  optimizer: str = 'adam'  # one of DIRECTIONS
  lr: float = 1e-4  # a traced number where a schedule sets it
  warmup: int = 0  # updates
  clip: float = 1.0  # of the global gradient norm
  decay: float = 0.0  # decoupled weight decay
  b1: float = 0.9
  b2: float = 0.99
  eps: float = 1e-8

  def direction(self) -> optax.GradientTransformationExtraArgs:
    """Everything but the learning rate, which may follow a schedule.

    Clipped gradients go in, and `finite`: False leaves the state as it is.
    """
    return optax.chain(
      DIRECTIONS[self.optimizer](self),
      optax.add_decayed_weights(self.decay),
    )


def _adam(rule: Rule) -> optax.GradientTransformationExtraArgs:
  """optax.scale_by_adam, written so that donated moments are not copied.

  What leaves as the new moments is also what the direction is made of: were
  that made of the old ones, these would have to outlive the new.
  """
  b1, b2, eps = rule.b1, rule.b2, rule.eps

  def update(grads, state, params=None, *, finite, **extra):
    del params, extra
    m, v, count = state.mu, state.nu, state.count
    moved = lambda old, new: jnp.where(finite, new, old)  # noqa: E731
    m = jax.tree.map(lambda m, g: moved(m, b1 * m + (1 - b1) * g), m, grads)
    v = jax.tree.map(lambda v, g: moved(v, b2 * v + (1 - b2) * g * g), v, grads)
    count = moved(count, optax.safe_increment(count))
    m, v = jax.lax.optimization_barrier((m, v))
    at_m, at_v = 1 - b1**count, 1 - b2**count  # both begin at 0
    direction = jax.tree.map(
      lambda m, v: (m / at_m) / (jnp.sqrt(v / at_v) + eps), m, v
    )
    return direction, optax.ScaleByAdamState(count, m, v)

  return optax.GradientTransformationExtraArgs(
    optax.scale_by_adam(b1, b2, eps).init, update
  )


def _adafactor(rule: Rule) -> optax.GradientTransformationExtraArgs:
  """Second moments as rows and columns, none of the first (1804.04235).

  Of a matrix [n, m] the state has n + m numbers where Adam's has 2 n m. Adam's
  b1, b2 and eps are not read.
  """
  del rule
  inner = optax.chain(
    optax.scale_by_factored_rms(), optax.clip_by_block_rms(1.0)
  )

  def update(grads, state, params=None, *, finite, **extra):
    del extra
    direction, new = inner.update(grads, state, params)
    kept = jax.tree.map(lambda a, b: jnp.where(finite, b, a), state, new)
    return direction, kept

  return optax.GradientTransformationExtraArgs(inner.init, update)


DIRECTIONS = {'adam': _adam, 'adafactor': _adafactor}


def init(rule: Rule, params, specs=None):
  """Optimizer state, laid out as the parameters.

  Args:
    specs: tree of mesh.Param. Under an automatic mesh the compiler does not
      know that the state belongs to the parameters: without specs it keeps
      all of it on every device.
  """
  direction = rule.direction()
  opt = direction.init(params)
  if mesh.is_explicit():
    # What begins as zeros lies as an update will leave it.
    update = functools.partial(direction.update, finite=True)
    _, told = jax.eval_shape(update, params, opt, params)
    return jax.tree.map(
      lambda x, to: jax.reshard(x, to.sharding.spec), opt, told
    )
  if specs is None or not mesh.active():
    return opt

  def lay(x, p: mesh.Param):
    if x.shape != p.shape:  # rows and columns: small
      return x
    stored = mesh.spec(*p.axes, rules=mesh.RULES)
    return jax.lax.with_sharding_constraint(x, stored)

  return optax.tree.map_params(direction, lay, opt, specs)


def step(rule: Rule, grads, opt, params):
  """One update; skipped and counted when the gradient is not finite.

  The warm-up goes by the updates that `opt` has seen.
  Returns: params, opt, metrics
  """
  norm = optax.tree.norm(grads)
  finite = jnp.isfinite(norm)
  scale = jnp.minimum(1.0, rule.clip / jnp.where(norm > 0, norm, 1))
  grads = jax.tree.map(lambda g: g * scale, grads)
  update, opt = rule.direction().update(grads, opt, params, finite=finite)
  count = optax.tree.get(opt, 'count')
  rate = rule.lr * jnp.minimum(1.0, count / max(rule.warmup, 1))
  params = jax.tree.map(
    lambda p, u: jnp.where(finite, p - rate * u, p), params, update
  )
  one = jnp.ones(())
  metrics: Metrics = {
    'grad_norm': (jnp.where(finite, norm, 0), finite.astype(jnp.float32)),
    'skipped': (1 - finite.astype(jnp.float32), one),
  }
  return params, opt, metrics
