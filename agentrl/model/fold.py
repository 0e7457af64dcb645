"""Fold of rows: what several rows begin with is read once.

A hidden state depends on the tokens before it and on nothing else, so rows that
begin alike may share it, whoever they belong to: members of a group their
prompt, branches their past, turns the conversation before them. `Rows` stay as
they are; a decoder reads one row of trees (nn/layers.py, `segment_until`) in
which each distinct beginning stands once, depth first, and padding nowhere.

Rows of one segment share, whole; packed ones stand beside the others as they
are. On a mesh every device folds its own rows into a row of its own: what has
a device's rows for arguments runs inside of `mesh.shard_map`, and what has
those of all devices, [D, ...] or [N, ...] of D devices, opens it.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from agentrl import mesh
from agentrl.nn import layers, transformer
from agentrl.nn.config import DecoderConfig
from agentrl.types import Array, Rows

CHUNKS = 64  # pieces of a row by which rows are ordered
DEALT = ('batch',)  # each device has a part


class Fold(NamedTuple):
  """Places of a device's M rows of T tokens in one row of C, W of them wanted.

  D devices have a row each: the only one of them is the first axis inside of
  `mesh.shard_map`, and all are outside.
  """

  source: Array  # [D, C] i32  flat index in the rows; M * T: nothing
  until: Array  # [D, C] i32  the last token that sees each one; -1: nothing
  place: Array  # [D * M, T] i32  where each token stands; C: padding
  wanted: Array  # [D, W] i32  flat indices in the rows, first; M * T: nothing


class FoldedRows(Rows):
  """Rows of a micro-batch, and where their tokens stand in one row."""

  fold: Fold


def order(tokens_NT: Array, seg_NT: Array, keep_N: Array) -> Array:
  """Orders the rows of all devices so that those that begin alike meet: i32.

  By the hashes of pieces of the row, the first one first; other rows than
  those to keep come last. A collision costs tokens, and nothing else.
  """
  n, t = tokens_NT.shape
  size = -(-t // min(CHUNKS, t))
  x = jnp.where(seg_NT >= 0, tokens_NT + 1, 0).astype(jnp.uint32)
  x = jnp.pad(x, ((0, 0), (0, -t % size))).reshape(n, -1, size)
  hashes = jnp.full(x.shape[:2], 2166136261, jnp.uint32)
  for i in range(size):  # FNV-1a, a token for a byte
    hashes = (hashes ^ x[:, :, i]) * jnp.uint32(16777619)
  group = jnp.where(keep_N, ~_one_segment(seg_NT), 2)  # packed ones share none
  keys = jnp.concatenate([group[:, None].astype(jnp.uint32), hashes], axis=1)
  # Gathered before the loop, not in it: a simulated device may start a loop's
  # collectives beside others, and where all of XLA's threads wait in them the
  # last device has none left to join with (JAX 0.10).
  keys = mesh.all_gather(keys, 'batch')
  rows, count = keys.shape

  def by_key(i, at):
    return at[jnp.argsort(keys[at, count - 1 - i], stable=True)]

  return jax.lax.fori_loop(0, count, by_key, jnp.arange(rows, dtype=jnp.int32))


def shared(tokens_MT: Array, seg_MT: Array) -> Array:
  """Counts tokens that each row begins with as the one before does: [M] i32."""
  live, one = seg_MT >= 0, _one_segment(seg_MT)
  same = (tokens_MT[1:] == tokens_MT[:-1]) & live[1:] & live[:-1]
  same &= (one[1:] & one[:-1])[:, None]
  t = tokens_MT.shape[1]
  # The first that differs.
  count = jnp.min(jnp.where(same, t, jnp.arange(t, dtype=jnp.int32)), axis=1)
  return jnp.concatenate([jnp.zeros(1, jnp.int32), count])


def _one_segment(seg_MT):
  return jnp.all((seg_MT < 0) | (seg_MT == seg_MT[:, :1]), axis=1)


def cut(length, begun, wanted, live, capacity: int, most: int, rounds: int):
  """Cuts rows into micro-batches: the first row of each, and how many.

  A micro-batch is closed where the next row's own tokens, or its wanted ones,
  would exceed the capacity.

  Args:
    length: [Q] i32 tokens of each row
    begun: [Q] i32, of these those that the row before begins with too
    wanted: [Q] i32
    live: [Q] bool; others are in no micro-batch
    most: rows of a micro-batch
    rounds: R, micro-batches at most
  Returns: start [R] i32, count [R] i32, [] i32 places that the largest needs
  """
  q = length.size

  def step(carry, x):
    tokens, asks, rows, piece = carry
    length, begun, wanted, live = x
    more, also = tokens + length - begun, asks + wanted
    full = (more > capacity) | (also > capacity) | (rows == most)
    new = jnp.where(full, length, more), jnp.where(full, wanted, also)
    new = *new, jnp.where(full, 1, rows + 1), piece + full
    carry = jax.tree.map(lambda a, b: jnp.where(live, a, b), new, carry)
    needs = jnp.maximum(*carry[:2])
    return carry, (jnp.where(live, carry[3], rounds), needs)

  zero = jnp.int32(0)
  _, (piece, needs) = jax.lax.scan(
    step, (zero, zero, zero, zero), (length, begun, wanted, live)
  )
  index = jnp.arange(q, dtype=jnp.int32)
  start = jnp.full(rounds, q, jnp.int32).at[piece].min(index, mode='drop')
  count = jnp.zeros(rounds, jnp.int32).at[piece].add(1, mode='drop')
  return start, count, jnp.max(needs)


def fold(tokens_MT, seg_MT, wanted_MT, capacity: int) -> Fold:
  """Folds neighbouring rows that begin alike into one row of C tokens.

  Args:
    wanted_MT: bool
    capacity: C; distinct tokens, and wanted ones, are no more
  """
  m, t = tokens_MT.shape
  index = jnp.arange(t, dtype=jnp.int32)
  live, begun = seg_MT >= 0, shared(tokens_MT, seg_MT)
  own = jnp.sum(live, axis=1, dtype=jnp.int32) - begun
  # Token p stands at base + p.
  base = jnp.cumsum(own, dtype=jnp.int32) - own - begun
  mine = live & (index[None] >= begun[:, None])
  end = jnp.maximum(layers.segment_until(seg_MT), 0)

  def down(place, x):  # rows from the first on: who has the token
    mine, base = x
    place = jnp.where(mine, base + index, place)
    return place, place

  nothing = jnp.full(t, capacity, jnp.int32)
  _, place = jax.lax.scan(down, nothing, (mine, base))
  place = jnp.where(live, place, capacity)

  def up(carry, x):  # rows from the last on: who sees the token last
    below, begun_below = carry
    end, begun = x
    until = jnp.where(index < begun_below, jnp.maximum(below, end), end)
    return (until, begun), until

  ends = jnp.take_along_axis(place, end, axis=1)
  start = jnp.zeros(t, jnp.int32), jnp.int32(0)
  _, until = jax.lax.scan(up, start, (ends, begun), reverse=True)
  at = jnp.where(mine, base[:, None] + index[None], capacity).reshape(-1)

  def put(x, fill):
    x = jnp.broadcast_to(x.reshape(-1), at.shape)
    return jnp.full(capacity, fill, jnp.int32).at[at].set(x, mode='drop')

  source = put(jnp.arange(m * t, dtype=jnp.int32), m * t)
  wanted = wanted_MT.reshape(-1)
  asks = jnp.argsort(~wanted, stable=True)[:capacity].astype(jnp.int32)
  asks = jnp.where(wanted[asks], asks, m * t)
  asks = jnp.pad(asks, (0, max(0, capacity - m * t)), constant_values=m * t)
  return Fold(source[None], put(until, -1)[None], place, asks[None])


def read(shape: DecoderConfig, params, rows: FoldedRows) -> Array:
  """Reads hidden states of the row of each device: [D, C, E]."""
  tokens, until = pick(rows.tokens, rows.fold.source), rows.fold.until
  name = transformer.kernel_of_trees(shape)
  return transformer.forward_trees(shape, params, tokens, until, name)[0]


def pick(x_NT: Array, index_DC: Array) -> Array:
  """Picks numbers of the rows at flat indices; 0 where none are: [D, C]."""

  def own(x, index):
    return x.reshape(-1).at[index].get(mode='fill', fill_value=0)

  return _each(own, x_NT, index_DC)


def is_wanted(f: Fold) -> Array:
  """Returns whether a place for wanted tokens has one: [D, W] bool."""
  return f.wanted < f.place.size // len(f.wanted)


def before_wanted(hidden_DCE: Array, f: Fold) -> Array:
  """Returns hidden states before each wanted token: [D, W, E]."""

  def own(hidden, place, wanted):
    nothing = hidden.shape[1]
    before = _before(place, nothing).reshape(-1)
    at = before.at[wanted[0]].get(mode='fill', fill_value=nothing)
    return hidden[0].at[at].get(mode='fill', fill_value=0)[None]

  return _each(own, hidden_DCE, f.place, f.wanted)


def before_each(x_DCK: Array, f: Fold) -> Array:
  """Returns what stands before each token; 0 before the first: [N, T, K]."""

  def own(x, place):
    at = _before(place, x.shape[1])
    return x[0].at[at].get(mode='fill', fill_value=0)

  return _each(own, x_DCK, f.place)


def spread(x_DW: Array, f: Fold) -> Array:
  """Puts numbers of the wanted tokens in their places; 0 elsewhere: [N, T]."""

  def own(x, place, wanted):
    out = jnp.zeros(place.size, x.dtype)
    return out.at[wanted[0]].set(x[0], mode='drop').reshape(place.shape)

  return _each(own, x_DW, f.place, f.wanted)


def _each(own, *args):
  """Calls own(*args) on each device's part of the arguments."""
  run = mesh.shard_map(
    lambda *args: (own(*args),), (DEALT,) * len(args), (DEALT,), checked=True
  )
  return run(*args)[0]


def _before(place_MT, nothing: int):
  return jnp.pad(place_MT[:, :-1], ((0, 0), (1, 0)), constant_values=nothing)
