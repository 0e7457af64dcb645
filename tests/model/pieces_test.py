"""Micro-batches: how many rows and tokens each of them has."""

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.model.pieces import MicroBatch, deal, unfolded
from agentrl.types import Rows

N, T, PROMPT = 24, 12, 8


def rows() -> Rows:
  """Three groups of eight rows: a prompt and four tokens of their own."""
  r = np.random.default_rng(0)
  tokens = r.integers(0, 10**6, (N, T)).astype(np.int32)
  tokens[:, :PROMPT] = np.repeat(tokens[::8, :PROMPT], 8, axis=0)
  tokens = tokens[r.permutation(N)]
  none = jnp.zeros((N, T), jnp.int32)
  sampled = jnp.broadcast_to(jnp.arange(T) >= PROMPT, (N, T))
  return Rows(
    tokens=jnp.asarray(tokens),
    seg=none,
    traj=none,
    turn=none,
    span=none.astype(jnp.int8),
    sampled=sampled,
    weight=sampled.astype(jnp.float32),
    logp=none.astype(jnp.float32),
    version=none,
  )


def test_a_group_reads_its_prompt_once():
  """8 + 8 x 4 tokens of each group, in place of 8 x 12."""
  pieces = deal(rows(), (), jnp.ones(N, bool), MicroBatch(4, fold=True))
  read = [pieces.at(i)[0].fold.until for i in range(int(pieces.rounds))]
  assert [int(np.sum(x >= 0)) for x in read] == [40, 40, 40]


def test_rows_and_extras_come_back_in_their_order():
  index = jnp.arange(N)
  keep = index % 5 != 2
  for micro in (MicroBatch(4, fold=True), 4):
    pieces = deal(rows(), index + 1, keep, micro)
    read, extras = pieces.at(0)
    like = jax.ShapeDtypeStruct(extras.shape, extras.dtype)
    out = pieces.zeros(rows(), like)
    for i in range(int(pieces.rounds)):
      read, extras = pieces.at(i)
      out = pieces.put(out, extras, i)
      own = np.flatnonzero(np.any(np.asarray(read.sampled), 1))
      want = np.asarray(rows().tokens)[np.asarray(extras)[own] - 1]
      np.testing.assert_array_equal(np.asarray(read.tokens)[own], want)
    got = np.asarray(pieces.join(out))
    np.testing.assert_array_equal(got[keep], np.asarray(index + 1)[keep])


def test_the_size_in_rows():
  assert unfolded(MicroBatch(3, fold=True)) == unfolded(3) == 3
