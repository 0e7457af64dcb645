"""Minibatches: masks that split a batch into sub-updates."""

from typing import Annotated

import jax
import jax.numpy as jnp

from agentrl import mesh, registry
from agentrl.domain import Count, OneOf
from agentrl.types import Batch

UNITS = ('row', 'trajectory', 'group')


@registry.register('minibatch')
def minibatches(
  batch: Batch,
  key,
  *,
  epochs: Count = 1,
  n: Count = 1,
  unit: Annotated[str, OneOf(*UNITS)] = 'trajectory',
):
  """Deals the live units of each epoch at random: [epochs * n, N, T] bool.

  Args:
    n: sub-updates of an epoch; they get equally many units that hold weight
    unit: 'row', 'trajectory' or 'group' is never split
    epochs: times that the batch is gone through
  """
  OneOf(*UNITS).check('hp.minibatch.minibatches.unit', unit)
  if epochs * n == 1:
    return (jnp.ones_like(batch.rows.sampled),)

  def deal(key, ids, live):
    """Deals a minibatch to each token, whose unit has the id."""
    count = ids.size if unit == 'row' else batch.outcome.shape[0]
    has = jnp.zeros(count + 1, bool)
    slot = jnp.where(live, ids, count)
    has = has.at[slot].set(True)[:count]
    noise = jax.random.uniform(key, (count,))
    rank = jnp.argsort(jnp.argsort(jnp.where(has, noise, 2.0)))
    return (rank % n)[jnp.minimum(ids, count - 1)]

  ids = _unit_ids(batch, unit)
  live = (batch.rows.weight != 0) & (ids >= 0)
  masks = []
  for epoch in range(epochs):
    of = mesh.auto(deal, ('batch', None))(
      jax.random.fold_in(key, epoch), jnp.maximum(ids, 0), live
    )
    masks += [of == i for i in range(n)]
  return tuple(masks)


def _unit_ids(batch: Batch, unit: str):
  """Returns the id of the unit of each token: [N, T] i32, -1 none."""
  traj = batch.rows.traj
  if unit == 'trajectory':
    return traj
  if unit == 'row':
    n, t = traj.shape
    index = jnp.arange(n, dtype=jnp.int32)[:, None]
    full = mesh.auto(
      lambda i, x: jnp.where(x >= 0, jnp.broadcast_to(i, (n, t)), -1),
      ('batch', None),
    )
    return full(index, traj)

  def first(group, traj):
    """Lets the lowest trajectory of a group stand for the group."""
    same = group[:, None] == group[None]
    lowest = jnp.argmax(same, axis=1).astype(jnp.int32)
    return jnp.where(traj >= 0, lowest[jnp.maximum(traj, 0)], -1)

  return mesh.auto(first, ('batch', None))(batch.ids['group'], traj)


@registry.register('minibatch', needs=('column:turn',))
def reverse_turns(batch: Batch, key, *, n: Count = 4):
  """Takes the last turns first, in n blocks of turns: [n, N, T] bool.

  Turns 0 to the last that any trajectory reached are cut into n blocks of
  (nearly) equal length; sub-update i takes block n − 1 − i of all
  trajectories (SeeUPO, arXiv 2602.06554, where a block is one turn).

  Args:
    n: blocks of turns, each a sub-update
  """

  def deal(turn, sampled):
    length = jnp.max(jnp.where(sampled, turn, 0)) + 1
    block = jnp.where(turn >= 0, turn * n // length, -1)
    return jnp.where(sampled, block, -1)

  f = mesh.auto(deal, ('batch', None))
  block = f(batch.rows.turn, batch.rows.sampled)
  return tuple(block == i for i in reversed(range(n)))


@registry.register('minibatch')
def none(batch: Batch, key):
  """Trains nothing: for methods without gradients."""
  return ()
