"""Selects trajectories of a batch for the trajectory log, on device.

`sample` is part of the jitted step, so that only the chosen groups ever leave
the device; `TrajectoryLogger` hands them on one step late, so that it never
waits.
"""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
from flax import struct

from agentrl import mesh, segment
from agentrl.advantage import chain
from agentrl.types import Array, Batch, Credit, Rows, Signals, Turns


@struct.dataclass
class TrajectorySample:
  """Some trajectories of a batch: n of them, in R rows."""

  member: Array  # [n] i32  place in the batch; B: none
  rows: Rows  # [R, T]  rows.traj is in [0, n)
  turns: Turns  # [n, K]
  ids: dict[str, Array]  # [n] i32
  outcome: Array  # [n] f32
  status: Array  # [n] i32
  whole: Signals  # [n]
  turn: Signals  # [n, K] or [n, K, H]
  token: Signals  # [R, T] or [R, T, H]


def sample(
  batch: Batch,
  signals: Signals,
  credit: Credit | None,
  key: jax.Array,
  *,
  groups: int,
  size: int,
) -> TrajectorySample:
  """Picks whole groups of the batch at random.

  Args:
    credit: None if the method gives none
    groups: how many; -1: all
    size: n; of groups that are larger together, the first so many
  """
  n, (b, k) = batch.rows.traj.shape[0], batch.turns.valid.shape
  size = min(size, b)
  # As many rows for each trajectory, or any number of them.
  each = k if n % b else n // b
  whole, turn, token = _levels(batch, signals, credit)

  def f(batch, whole, turn, token, key):
    live = jnp.any(batch.turns.valid, axis=1)
    member = chosen(batch.ids['group'], live, key, groups=groups, size=size)
    rows, token = _rows(batch.rows, token, member, b, size * each)
    turns, ids, outcome, status, whole, turn = jax.tree.map(
      lambda x: jnp.take(x, member, axis=0, mode='clip'),
      (batch.turns, batch.ids, batch.outcome, batch.status, whole, turn),
    )
    turns = turns.replace(valid=turns.valid & (member < b)[:, None])
    return TrajectorySample(
      member, rows, turns, ids, outcome, status, whole, turn, token
    )

  return mesh.auto(f, None)(batch, whole, turn, token, key)


def chosen(group, live, key, *, groups: int, size: int) -> Array:
  """Picks members of random groups: [size] i32 in order, then B.

  Args:
    group, live: [B]
    groups: how many; -1: all
  """
  chex.assert_rank([group, live], 1)
  b = group.shape[0]
  alike = (group[:, None] == group[None]) & live[None]
  first = jnp.argmax(alike, axis=1)
  noise = jax.random.uniform(key, (b,))
  heads = live & (first == jnp.arange(b))
  before = jnp.sum((noise[None] < noise[first][:, None]) & heads[None], axis=1)
  taken = live & ((before < groups) | (groups < 0))
  return jnp.nonzero(taken, size=size, fill_value=b)[0].astype(jnp.int32)


def _levels(batch: Batch, signals: Signals, credit: Credit | None):
  """Returns signals, advantages, targets by level: [B], [B, K] and [N, T]."""
  tokens = {'logp': batch.rows.logp, 'weight': batch.rows.weight}
  fields, more = dict(signals), {}
  if credit is not None:
    fields |= {f'target.{name}': x for name, x in credit.target.items()}
    tokens['weight'] = credit.weight
    tokens['advantage'] = chain.token_advantage(credit, batch.rows)
    more['advantage'] = credit.turn

  def of(shape):
    rank = len(shape)
    return {k: x for k, x in fields.items() if x.shape[:rank] == shape}

  turn, token = of(batch.turns.valid.shape), of(batch.rows.traj.shape)
  whole = {k: x for k, x in of(batch.outcome.shape).items() if x.ndim == 1}
  return whole, turn | more, token | tokens


def _rows(rows: Rows, token: Signals, member, b: int, size: int):
  """Returns the rows with tokens of the members, at most `size`."""
  n = rows.traj.shape[0]
  place = jnp.full(b + 1, -1, jnp.int32)
  place = place.at[member].set(jnp.arange(len(member), dtype=jnp.int32))
  place = place.at[b].set(-1)
  traj = place[jnp.where(rows.traj < 0, b, rows.traj)]
  needed = jnp.any((traj >= 0) & segment.in_message(rows), axis=1)
  index = jnp.nonzero(needed, size=min(size, n), fill_value=n)[0]
  rows, token = jax.tree.map(
    lambda x: jnp.take(x, index, axis=0, mode='clip'),
    (rows.replace(traj=traj), token),
  )
  there = (index < n)[:, None]
  return rows.replace(traj=jnp.where(there, rows.traj, -1)), token


class TrajectoryLogger:
  """Writes the samples of a step one step later, as metrics.DelayedFetch."""

  def __init__(
    self,
    put: Callable[[int, str, TrajectorySample], None],
    flush: Callable[[], None],
    *,
    every: int = 1,
  ):
    """Looks every `every` steps; put: takes (step, phase, host arrays)."""
    self._put, self._flush, self._every = put, flush, every
    self._held: tuple[int, str, Any] | None = None

  def push(
    self, step: int, phase: str, picked: TrajectorySample | None
  ) -> None:
    """Holds the sample of a step and writes the one before."""
    self.drain()
    if picked is None or step % self._every:
      return
    for leaf in jax.tree.leaves(picked):
      leaf.copy_to_host_async()
    self._held = (step, phase, picked)

  def write(self, step: int, phase: str, picked: TrajectorySample) -> None:
    """Writes the held sample, then this one."""
    self.drain()
    self._put(step, phase, jax.device_get(picked))

  def drain(self) -> None:
    """Writes the held sample."""
    if self._held is not None:
      step, phase, picked = self._held
      self._held = None
      self._put(step, phase, jax.device_get(picked))

  def flush(self) -> None:
    """Returns when all that was pushed is on disk."""
    self.drain()
    self._flush()
