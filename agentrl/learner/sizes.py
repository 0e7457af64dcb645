"""Sizes of an update, by what stands in its batch.

A batch has room for the most that may happen: as many turns, and as long ones,
as the config allows. An update of that room takes its time whatever stands
there, so the batch is cut to what it holds, and micro-batches to what the
largest of them needs. Sizes are rounded up, and few programs are compiled. They
depend on state and batch alone: all processes choose the same, and so does a
run that is resumed.
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp

from agentrl import mesh, segment
from agentrl.learner import policies
from agentrl.learner import update as update_lib
from agentrl.learner.algorithm import Algorithm
from agentrl.model import microbatch, pieces
from agentrl.types import Array, Batch, Rows, TrainState

LEAST = 16  # tokens of a row: rows of one turn are short, and many
PLACES = 64  # of a micro-batch: fewer would be no faster


def jit_update(alg: Algorithm) -> Callable:
  """Compiles the update: (state, batch) -> state, metrics, aux.

  The state is donated. A call waits for the batch, whose sizes come to the
  host. What a memory keeps is not cut.
  """
  micro = pieces.sized(alg.context.micro)

  def with_places(n: int) -> Algorithm:
    context = alg.context._replace(micro=micro._replace(places=n))
    return alg._replace(context=context)

  @functools.cache
  def needed(most: int):
    return jax.jit(functools.partial(places, with_places(most)))

  @functools.cache
  def update(size: int):
    run = functools.partial(update_lib.update, with_places(size))
    return jax.jit(run, donate_argnums=0)

  def run(state: TrainState, batch: Batch):
    most = pieces.capacity(micro, batch.rows.tokens.shape[1])
    batch = batch if alg.memory else trimmed(batch, micro.rows)
    if not micro.fold:
      return update(0)(state, batch)
    count = int(needed(most)(state, batch))
    return update(max(count, min(rounded(max(count, PLACES)), most)))(
      state, batch
    )

  return run


def rounded(size: int) -> int:
  """Rounds up to one of few sizes: 16, 24, 32, 48, 64, 96, 128, ..."""
  size = max(size, LEAST)
  unit = 1 << size.bit_length() - 2
  return -(-size // unit) * unit


def trimmed(batch: Batch, micro: int) -> Batch:
  """Cuts columns, and rows of each trajectory, that hold nothing in any row.

  Args:
    micro: rows of a micro-batch, which go on to divide those of the batch
  """
  b, k = batch.turns.valid.shape
  each, columns = jax.device_get(_extents(batch))
  unit = micro // math.gcd(micro, b)
  each = unit << max(0, -(-int(each) // unit) - 1).bit_length()
  # Arrays of tokens and of turns are told apart by their shapes.
  columns = {x: max(rounded(int(n)), k + 1) for x, n in columns.items()}
  return _cut(batch, each, tuple(columns.items()))


@jax.jit
def _extents(batch: Batch) -> tuple[Array, dict[str, Array]]:
  """Measures how far tokens reach: rows of a trajectory, columns by reading."""
  rows = {'': batch.rows, **batch.readings}
  used = {name: x.seg >= 0 for name, x in rows.items()}
  columns = {name: _last(jnp.any(x, axis=0)) for name, x in used.items()}
  if not (each := _rows_of_each(batch)):
    return jnp.int32(0), columns
  of_row = mesh.auto(lambda x: jnp.any(x, axis=1).reshape(-1, each), None)
  last = [_last(jnp.any(of_row(x), axis=0)) for x in used.values()]
  return jnp.max(jnp.stack(last)), columns


def _last(used: Array) -> Array:
  """Counts the places up to the last that is used: [n] bool -> [] i32."""
  return jnp.max(jnp.where(used, jnp.arange(1, len(used) + 1), 0))


def _rows_of_each(batch: Batch) -> int:
  """Returns the rows per trajectory; 0 if trajectories differ in them."""
  counts = {len(x.seg) for x in (batch.rows, *batch.readings.values())}
  n, b = len(batch.rows.seg), len(batch.outcome)
  return 0 if n % b or len(counts) > 1 else n // b


@functools.partial(jax.jit, static_argnums=(1, 2))
def _cut(batch: Batch, most: int, columns: tuple[tuple[str, int], ...]):
  """Cuts rows to the first `most` of each trajectory and to those columns."""
  each, b = _rows_of_each(batch), len(batch.outcome)

  def cut(rows: Rows, width: int) -> Rows:
    def some(x):
      x = x[:, :width]
      if each <= most:
        return x
      x = x.reshape(b, each, -1)[:, :most]
      return x.reshape(b * most, -1)

    f = mesh.auto(some, segment.ROW)
    return jax.tree.map(
      lambda x: mesh.with_logical_sharding(f(x), *segment.ROW), rows
    )

  width = dict(columns)
  readings = {name: cut(x, width[name]) for name, x in batch.readings.items()}
  return batch.replace(rows=cut(batch.rows, width['']), readings=readings)


def places(alg: Algorithm, state: TrainState, batch: Batch) -> Array:
  """Counts the places that the largest micro-batch of an update needs: [] i32.

  The largest of a sub-update's; passes over the whole batch have as many
  micro-batches of its size as it takes. No row that is read is longer.
  """
  alg, batch, _ = update_lib.curated(alg, state, batch)
  needs = [*map(pieces.longest, (batch.rows, *batch.readings.values()))]
  for x in policies.views(alg, state, batch):
    wanted = microbatch.wanted(x.batch.rows)
    for mask in update_lib.minibatches(x.alg, x.state, x.batch) or (wanted,):
      keep = jnp.any(wanted & mask, axis=1)
      needs.append(pieces.places(batch.rows, keep, alg.context.micro))
  return jnp.max(jnp.stack(needs))
