"""Observations as tokens, inside jit: tables of encoded pieces, and joining.

Every piece of text is encoded once, by itself, before compilation. What the
model reads is the concatenation of those ids: no text is made and encoded
again, so the tokens of a board do not depend on its neighbours.
"""

from collections.abc import Sequence

import chex
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from agentrl.text.tokenizer import Tokenizer


@struct.dataclass
class PieceTable:
  """The tokens of n pieces of text, at most w each, and what stands around.

  An observation of O pieces takes at most p + O * w + s tokens.
  """

  tokens: Array  # [n, w] i32, padded with `pad`
  length: Array  # [n] i32, tokens of each piece, 1..w
  prefix: Array  # [p] i32, before every observation
  suffix: Array  # [s] i32, after every observation
  pad: int = struct.field(pytree_node=False)


def piece_table(
  tokenizer: Tokenizer,
  pieces: Sequence[str],
  *,
  prefix: str = '',
  suffix: str = '',
) -> PieceTable:
  """Encodes each piece by itself; prefix and suffix may hold specials.

  Raises:
    ValueError: if there are no pieces, one has no tokens, or two different
      ones have the same (then the model could not tell them apart).
  """
  if not pieces:
    raise ValueError('a piece table needs at least one piece, got none')
  encoded = [tokenizer.encode(piece) for piece in pieces]
  first: dict[tuple[int, ...], str] = {}
  for piece, ids in zip(pieces, encoded, strict=True):
    if not ids:
      raise ValueError(
        f'piece {piece!r} has no tokens in tokenizer {tokenizer.name}; write '
        'it with other characters'
      )
    other = first.setdefault(tuple(ids), piece)
    if other != piece:
      raise ValueError(
        f'pieces {other!r} and {piece!r} have the same tokens in tokenizer '
        f'{tokenizer.name}; write one of them with other characters'
      )
  tokens, length = pad_lists(encoded, tokenizer.pad)
  return PieceTable(
    tokens=jnp.asarray(tokens),
    length=jnp.asarray(length),
    prefix=as_tokens(tokenizer, prefix),
    suffix=as_tokens(tokenizer, suffix),
    pad=tokenizer.pad,
  )


def pad_lists(lists: Sequence[Sequence[int]], pad: int):
  """Pads ragged lists: (tokens [n, w] i32 with `pad`, length [n] i32)."""
  length = np.array([len(ids) for ids in lists], np.int32)
  tokens = np.full((len(lists), max(1, length.max())), pad, np.int32)
  for row, ids in zip(tokens, lists, strict=True):
    row[: len(ids)] = ids
  return tokens, length


def as_tokens(tokenizer: Tokenizer, text: str) -> Array:
  """Returns the tokens of our own text, which may hold specials: [l] i32."""
  return jnp.asarray(tokenizer.encode(text, specials=True), jnp.int32)


def render(table: PieceTable, obs: Array) -> tuple[Array, Array]:
  """Concatenates the pieces of an observation, without gaps.

  Args:
    table: n pieces.
    obs: [O] i32, indices in [0, n); below 0: no piece, anywhere.

  Returns:
    tokens [p + O * w + s] i32, padded with `table.pad`, and length [] i32.
  """
  chex.assert_rank(obs, 1)
  chex.assert_type(obs, int)
  width = table.tokens.shape[1]
  index = jnp.maximum(obs, 0)  # -1 would wrap to the last piece
  length = jnp.where(obs < 0, 0, table.length[index])  # [O]
  keep = jnp.arange(width)[None, :] < length[:, None]  # [O, w]
  return compact(
    jnp.concatenate(
      [table.prefix, table.tokens[index].reshape(-1), table.suffix]
    ),
    jnp.concatenate(
      [
        jnp.ones(table.prefix.shape, bool),
        keep.reshape(-1),
        jnp.ones(table.suffix.shape, bool),
      ]
    ),
    table.pad,
  )


def concat(
  parts: Sequence[tuple[Array, Array]], *, pad: int = 0
) -> tuple[Array, Array]:
  """Concatenates ragged (tokens [L_i], length []) parts.

  What a part holds beyond its length is dropped, whatever it is.

  Returns:
    tokens [ΣL_i] i32, padded with `pad`, and their number [] i32.
  """
  for tokens, length in parts:
    chex.assert_rank([tokens, length], [1, 0])
  return compact(
    jnp.concatenate([tokens for tokens, _ in parts]),
    jnp.concatenate(
      [jnp.arange(tokens.shape[0]) < length for tokens, length in parts]
    ),
    pad,
  )


def compact(tokens: Array, keep: Array, pad: int) -> tuple[Array, Array]:
  """Moves the kept tokens to the front, in order: ([L], number kept)."""
  size = tokens.shape[0]
  rank = jnp.cumsum(keep, dtype=jnp.int32)
  # Each dropped token has an index of its own beyond the end, so that the
  # indices are unique and the scatter needs no order.
  place = jnp.where(keep, rank - 1, size + jnp.arange(size))
  packed = jnp.full((size,), pad, jnp.int32)
  packed = packed.at[place].set(tokens, mode='drop', unique_indices=True)
  return packed, jnp.sum(keep, dtype=jnp.int32)


def content_hash(tokens: Array, length: Array) -> Array:
  """Hashes tokens[:length] into [0, 2³¹), the same on every machine.

    h = mix(Σ_j mix(mix(t_j) + c·(j + 1)) mod 2³²) mod 2³¹

  where mix is a bijection of 32-bit words that sends one changed bit to half
  of the outputs. Terms are summed in parallel, and padding adds none.

  Two different contents collide when the sums of their differing terms are
  equal. Each term is a fixed pseudo-random word chosen by token and position
  together, so this has probability 2⁻³¹ for a pair, near-duplicates included:
  n contents are expected to give n²/2³² collisions (2.3 for 100,000).
  Multiplying the token by a number of its position instead would not do: a
  sum of products is linear, and swapping two cells here or two others there
  gives equal sums whenever the numbers are equally far apart. It is no
  defence against contents made to collide.

  Args:
    tokens: [L] i32.
    length: [] i32.

  Returns:
    [] i32, never negative.
  """
  chex.assert_rank([tokens, length], [1, 0])
  position = jnp.arange(tokens.shape[0], dtype=jnp.uint32)
  stride = jnp.uint32(0x9E3779B1)  # 2³² over the golden ratio, a prime
  word = _mix(tokens.astype(jnp.uint32) + jnp.uint32(1))
  term = _mix(word + stride * (position + jnp.uint32(1)))
  inside = jnp.arange(tokens.shape[0]) < length
  total = jnp.sum(jnp.where(inside, term, jnp.uint32(0)), dtype=jnp.uint32)
  return (_mix(total) & jnp.uint32(0x7FFFFFFF)).astype(jnp.int32)


def partial_hash(obs: Array, share: float) -> Array:
  """Hashes some places of an observation: those that differ elsewhere meet.

  The places are drawn once, by a fixed seed, so that two observations that
  differ in d of O places have the same hash with probability about
  (1 - share)^d over such draws: bit sampling, the locality-sensitive hash of
  the Hamming distance.

  Args:
    obs: [O] i32, indices of pieces.
    share: of the places that are looked at, in (0, 1]; at least one is.

  Returns:
    [] i32, never negative.
  """
  chex.assert_rank(obs, 1)
  size = obs.shape[0]
  count = max(1, round(share * size))
  places = np.sort(np.random.default_rng(0).permutation(size)[:count])
  return content_hash(obs[places], jnp.int32(count))


def _mix(x: Array) -> Array:
  """Applies the 32-bit finalizer of least bias of C. Wellons' search (2018)."""
  x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
  x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
  return x ^ (x >> 16)
