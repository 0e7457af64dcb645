"""The optimizer of one role, its state sharded as the parameters are."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from agentrl import mesh
from agentrl.types import Metrics


class Rule(NamedTuple):
  """How a role is trained: clip, AdamW, linear warm-up."""

  lr: float = 1e-4  # a traced number where a schedule sets it
  warmup: int = 0  # updates
  clip: float = 1.0  # of the global gradient norm
  decay: float = 0.0  # decoupled weight decay
  b1: float = 0.9
  b2: float = 0.99
  eps: float = 1e-8

  def direction(self) -> optax.GradientTransformation:
    """Everything but the learning rate, which may follow a schedule."""
    return optax.chain(
      optax.clip_by_global_norm(self.clip),
      optax.scale_by_adam(b1=self.b1, b2=self.b2, eps=self.eps),
      optax.add_decayed_weights(self.decay),
    )


def init(rule: Rule, params, specs=None):
  """Optimizer state, laid out as the parameters.

  Args:
    specs: tree of mesh.Param. Under an automatic mesh the compiler does not
      know that the state belongs to the parameters: without specs it keeps
      all of it on every device.
  """
  direction = rule.direction()
  opt = direction.init(params)
  if specs is None or not mesh.active() or mesh.is_explicit():
    return opt

  def lay(x, p: mesh.Param):
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
  safe = jax.tree.map(lambda g: jnp.where(finite, g, 0), grads)
  update, new_opt = rule.direction().update(safe, opt, params)
  count = optax.tree.get(new_opt, 'count')
  rate = rule.lr * jnp.minimum(1.0, count / max(rule.warmup, 1))
  new = jax.tree.map(lambda p, u: p - rate * u, params, update)
  keep = lambda a, b: jax.tree.map(lambda x, y: jnp.where(finite, x, y), a, b)  # noqa: E731
  one = jnp.ones(())
  metrics: Metrics = {
    'grad_norm': (jnp.where(finite, norm, 0), finite.astype(jnp.float32)),
    'skipped': (1 - finite.astype(jnp.float32), one),
  }
  return keep(new, params), keep(new_opt, opt), metrics
