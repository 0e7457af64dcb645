"""Halves of pairs: trajectories or turns, and what moves to and from them."""

import jax.numpy as jnp

from agentrl import mesh
from agentrl.segment.ids import compact_ids, segment_sum
from agentrl.types import Array, Batch, Pairs


def pairs_of(batch: Batch) -> Pairs:
  """Returns the pairs of a batch; ValueError where nothing made them."""
  if batch.pairs is None:
    raise ValueError(
      'batch.pairs must be filled, got None; add a component to c.curate that'
      ' makes pairs'
    )
  return batch.pairs


def at_halves(table: Array, pairs: Pairs) -> Array:
  """Reads x [B, K] at the halves of pairs: [P, 2], the winner first.

  A half that is a whole trajectory (turn -1) has the sum over its turns.
  """

  def f(table, traj, turn):
    whole = jnp.sum(table, axis=1)[traj]
    return jnp.where(turn < 0, whole, table[traj, jnp.maximum(turn, 0)])

  return mesh.auto(f, None)(table, *_places(pairs))


def from_halves(x: Array, pairs: Pairs, shape: tuple[int, int]) -> Array:
  """Sums x [P, 2] over the halves that hold a turn: [B, K].

  The transpose of `at_halves`.

  Args:
    shape: (B, K)
  """

  def f(x, traj, turn):
    b, k = shape
    whole = jnp.zeros(b + 1, x.dtype).at[jnp.where(turn < 0, traj, b)].add(x)
    flat = jnp.where(turn < 0, b * k, traj * k + turn)
    own = jnp.zeros(b * k + 1, x.dtype).at[flat].add(x)
    return own[:-1].reshape(b, k) + whole[:-1, None]

  return mesh.auto(f, None)(x, *_places(pairs))


def share_turns(table: Array, batch: Batch) -> Array:
  """Sums x [B, K] over the copies of a turn that branches share: [B, K].

  0 at what is not a turn. The tokens of a shared turn are those of one
  trajectory (types.Rows): this way its copies have them, too.
  """
  valid, node = batch.turns.valid, batch.turns.node
  ids = compact_ids(node.reshape(-1), valid.reshape(-1))
  own = jnp.where(valid, table, 0).reshape(-1)
  return jnp.where(valid, segment_sum(own, ids).reshape(table.shape), 0)


def _places(pairs: Pairs) -> tuple[Array, Array]:
  """Returns trajectory and turn of the halves: [P, 2] i32 each."""
  both = jnp.stack([pairs.win, pairs.lose], axis=1)
  return both[..., 0], both[..., 1]
