"""Order of rows and trajectories, and micro-batches of rows."""

import jax
import jax.numpy as jnp

from agentrl import mesh


def take_trajectories(tree, order):
  """Takes arrays [B, ...] that each device holds, in another order: [b] i32."""
  take = mesh.auto(lambda x, order: x[order], None)
  return jax.tree.map(lambda x: take(x, order), tree)


def live_first(live):
  """Orders live rows first, otherwise stable: [N] bool -> [N] i32."""
  return mesh.auto(lambda x: jnp.argsort(~x, stable=True), None)(live)


def take_rows(tree, order):
  """Takes every array of the tree [N, ...] in another order of rows."""

  def take(x):
    axes = ('batch',) + (None,) * (x.ndim - 1)
    return mesh.auto(lambda x, order: x[order], axes)(x, order)

  return jax.tree.map(take, tree)


def cut(tree, size: int):
  """Cuts [N, ...] -> [N / size, size, ...]: consecutive micro-batches."""

  def f(x):
    axes = (None, 'batch') + (None,) * (x.ndim - 1)
    return mesh.auto(lambda x: x.reshape(-1, size, *x.shape[1:]), axes)(x)

  return jax.tree.map(f, tree)


def join(tree):
  """Inverts `cut`."""

  def f(x):
    axes = ('batch',) + (None,) * (x.ndim - 2)
    return mesh.auto(lambda x: x.reshape(-1, *x.shape[2:]), axes)(x)

  return jax.tree.map(f, tree)


def invert(order):
  """Returns the order that undoes `take_rows(., order)`: [N] i32."""
  return mesh.auto(jnp.argsort, None)(order)
