"""Micro-batches: how many rows and tokens each of them has."""

import contextlib
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh
from agentrl.model.pieces import MicroBatch, deal, unfolded
from agentrl.types import Rows
from tests.model.rows import make

N, T, PROMPT = 24, 12, 8


def rows(n: int = N) -> Rows:
  """Groups of eight rows: a prompt and four tokens of their own."""
  r = np.random.default_rng(0)
  tokens = r.integers(0, 10**6, (n, T)).astype(np.int32)
  tokens[:, :PROMPT] = np.repeat(tokens[::8, :PROMPT], 8, axis=0)
  tokens = tokens[r.permutation(n)]
  return make(tokens, np.broadcast_to(np.arange(T) >= PROMPT, (n, T)))


@functools.partial(jax.jit, static_argnums=1)
def untils(rows: Rows, micro: MicroBatch):
  """Returns how many pieces there are, and `until` of the first three."""
  pieces = deal(rows, (), jnp.ones(N, bool), micro)
  return pieces.rounds, [pieces.at(i)[0].fold.until for i in range(3)]


def test_a_group_reads_its_prompt_once():
  """8 + 8 x 4 tokens of each group, in place of 8 x 12."""
  rounds, read = untils(rows(), MicroBatch(4, fold=True))
  assert rounds == 3
  assert [int(np.sum(x >= 0)) for x in read] == [40, 40, 40]


def on(devices: int):
  """So many devices, which share the rows."""
  if devices == 1:
    return contextlib.nullcontext()
  return jax.set_mesh(mesh.make({'data': devices}))


def laid(tree):
  """Rows as the devices share them."""
  return jax.tree.map(
    lambda x: mesh.with_logical_sharding(x, 'batch', *(None,) * (x.ndim - 1)),
    tree,
  )


def read(devices: int, n: int, keep, rows_at_once: int) -> tuple[int, int]:
  """Places of tokens that a device reads, and tokens of all of them."""
  with on(devices):

    @jax.jit
    def run(rows, keep):
      pieces = deal(rows, (), keep, MicroBatch(rows_at_once, fold=True))

      def more(i, tokens):
        until = pieces.at(i)[0].fold.until
        return tokens + jnp.sum(until >= 0)

      tokens = jax.lax.fori_loop(0, pieces.rounds, more, 0)
      return pieces.rounds * pieces.capacity, tokens

    return tuple(int(x) for x in run(*laid((rows(n), keep))))


def test_devices_share_what_is_read():
  """Sixteen groups, of which no prompt is read by two devices."""
  n, keep = 16 * 8, jnp.ones(16 * 8, bool)
  alone, tokens = read(1, n, keep, 40)  # twelve groups at once
  assert tokens == 16 * (PROMPT + 8 * (T - PROMPT))
  for devices in (2, 4):
    own, all_of_them = read(devices, n, keep, 40)
    assert all_of_them == tokens
    np.testing.assert_allclose(own, alone / devices, rtol=0.1)


@pytest.mark.parametrize('devices', [1, 4])
def test_rows_and_extras_come_back_in_their_order(devices):
  index = jnp.arange(N)
  keep = index % 5 != 2
  for micro in (MicroBatch(4, fold=True), 4):
    with on(devices):

      @jax.jit
      def back(rows, extras, keep, micro=micro):
        """The extras that were read, and the first token of their rows."""
        pieces = deal(rows, extras, keep, micro)

        def step(i, out):
          read, extras = pieces.at(i)
          own = jnp.where(jnp.any(read.sampled, 1), read.tokens[:, 0], 0)
          return pieces.put(out, (extras, own), i)

        like = jax.ShapeDtypeStruct(pieces.at(0)[1].shape, jnp.int32)
        out = (pieces.zeros(rows, like),) * 2
        return pieces.join(jax.lax.fori_loop(0, pieces.rounds, step, out))

      got = back(*laid((rows(), index + 1, keep)))
    for x, want in zip(got, (index + 1, rows().tokens[:, 0]), strict=True):
      np.testing.assert_array_equal(x, np.where(keep, want, 0))


@pytest.mark.parametrize(('limit', 'read'), [(2 * T, 2 * T), (1, T)])
def test_a_kernel_may_read_fewer_tokens_at_once(limit, read):
  """Never fewer than a row has."""
  micro = MicroBatch(4, fold=True, tokens=limit)
  rounds, each = untils(rows(), micro)
  assert {x.shape for x in each} == {(1, read)}
  if limit == 1:
    assert rounds == untils(rows(), MicroBatch(1, fold=True))[0]


def test_there_are_as_many_rounds_as_the_busiest_device_needs():
  """Of rows that share much and rows that share nothing, dealt alike."""
  some, each = rows(4 * 8), jnp.arange(8 * T, dtype=jnp.int32).reshape(8, T)
  batch = some.replace(tokens=some.tokens.at[:8].set(-1 - each))
  with on(4):

    @jax.jit
    def run(rows, keep):
      pieces = deal(rows, (), keep, MicroBatch(8, fold=True))
      return pieces.rounds, pieces.count

    rounds, count = run(*laid((batch, jnp.ones(4 * 8, bool))))
  own = np.sum(np.asarray(count).reshape(4, -1) > 0, axis=1)
  assert min(own) < max(own) == rounds


def test_the_size_in_rows():
  want = MicroBatch(3, in_place=False)
  assert unfolded(want._replace(fold=True, tokens=9)) == want
  assert unfolded(3) == MicroBatch(3)
