"""Rows of trees: what a token sees is its ancestors, in float64."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh
from agentrl.nn import attention, chunked_attention, layers, transformer
from agentrl.nn.chunked_attention import AttentionConfig

T = 23


def forest(
  r: np.random.Generator, tokens: int = T, ends: float = 0.4
) -> tuple[np.ndarray, np.ndarray]:
  """Random trees of tokens in depth-first order: parent and until, [T].

  ends: share of tokens before which a branch ends
  """
  parent, open_ = np.full(tokens, -1), []
  size = int(r.integers(tokens // 2, tokens + 1))
  for t in range(size):
    if r.random() < ends:
      del open_[int(r.integers(0, len(open_) + 1)) :]
    parent[t] = open_[-1] if open_ else -1
    open_.append(t)
  until = np.full(tokens, -1)
  for t in range(size):
    at = t
    while at >= 0:
      until[at] = t
      at = parent[at]
  return parent, until


def seen(parent, t: int, window: int = 0) -> list[int]:
  """The token and those before it, the nearest first."""
  out = [t]
  while parent[out[-1]] >= 0:
    out.append(parent[out[-1]])
  return out[: window or None]


@pytest.mark.parametrize('window', [0, 3])
def test_a_mask_and_positions_are_those_of_ancestors(window):
  r = np.random.default_rng(0)
  trees = [forest(r) for _ in range(20)]
  parents, until = np.array(trees).swapaxes(0, 1)
  ask = np.arange(5, 9)

  @jax.jit
  def read(until):
    some = attention.query_mask(until, jnp.asarray(ask), window)
    mask = attention.row_mask(until, window)
    return some, mask, layers.positions(until)

  some, mask, positions = map(np.asarray, read(until))
  np.testing.assert_array_equal(some, mask[:, ask])
  for n, t in zip(*np.nonzero(until >= 0), strict=True):
    own = seen(parents[n], t, window)
    assert sorted(own) == list(np.flatnonzero(mask[n, t]))
    assert positions[n, t] == len(seen(parents[n], t)) - 1


@pytest.mark.parametrize(
  'c',
  [
    AttentionConfig(block=4),
    AttentionConfig(block=5, window=3),
    AttentionConfig(block=64, cap=2.0),
  ],
  ids=str,
)
def test_blocks_see_what_the_mask_says(c):
  r = np.random.default_rng(1)
  until = jnp.asarray([forest(r)[1] for _ in range(3)])
  with jax.enable_x64(True):
    q, bar = jnp.asarray(r.normal(size=(2, 3, T, 4, 6)))
    k, v = jnp.asarray(r.normal(size=(2, 3, T, 2, 6)))
    mask = attention.row_mask(until, c.window)

    def pulled(attend):
      def run(q, k, v, bar):
        out, pull = jax.vjp(attend, q, k, v)
        return out, *pull(bar)

      return jax.jit(run)(q, k, v, bar)

    want = pulled(functools.partial(attention.attend, mask_NTS=mask, cap=c.cap))
    got = pulled(functools.partial(chunked_attention.attend, c, until_NT=until))
    for x, y in zip(got, want, strict=True):
      np.testing.assert_allclose(x, y, atol=1e-6)


def test_a_block_of_other_branches_is_not_read():
  """Two roots of 8 tokens and one of 4: nobody reads another's block."""
  until = jnp.asarray([[7] * 8 + [15] * 8 + [19] * 4])
  x = jnp.zeros((1, 20, 1, 2))
  cut = jax.jit(chunked_attention._cut, static_argnums=0)(
    AttentionConfig(block=4), x, x, x, until
  )
  np.testing.assert_array_equal(cut.count, [1, 2, 1, 2, 1])
  assert [list(o[:n]) for o, n in zip(cut.order, cut.count, strict=True)] == [
    [0],
    [0, 1],
    [2],
    [2, 3],
    [4],
  ]


@pytest.mark.parametrize(
  'explicit', [True, pytest.param(False, marks=pytest.mark.nightly)]
)
def test_a_tree_is_its_paths(explicit):
  """Hidden states of a decoder: each path of the tree as a row of its own."""
  c = transformer.DecoderConfig(
    vocab=11, width=8, layers=2, heads=2, kv_heads=1, head_dim=4, mlp=8
  )
  r = np.random.default_rng(2)
  trees = [forest(r) for _ in range(4)]
  tokens = r.integers(0, 11, (4, T)).astype(np.int32)
  until = jnp.asarray([x[1] for x in trees])
  params = mesh.init(transformer.specs(c), jax.random.key(0))
  with jax.set_mesh(mesh.make({'data': 2, 'tensor': 1}, explicit=explicit)):
    run = jax.jit(transformer.forward_trees, static_argnums=(0, 4))
    kernels = 'xla', 'chunked'
    got = [np.asarray(run(c, params, tokens, until, x)[0]) for x in kernels]
  np.testing.assert_allclose(got[0], got[1], atol=1e-5)
  forward = jax.jit(transformer.forward, static_argnums=0)
  for n, (parent, last) in enumerate(trees):
    for t in np.flatnonzero(last == np.arange(T)):  # leaves
      path = seen(parent, t)[::-1]
      row, seg = np.zeros((1, T), np.int32), np.full((1, T), -1)
      row[0, : len(path)], seg[0, : len(path)] = tokens[n, path], 0
      want = forward(c, params, row, jnp.asarray(seg))[0, : len(path)]
      np.testing.assert_allclose(got[0][n, path], want, atol=1e-5)
