"""Folding of rows: against sets of beginnings, and gradients in float64."""

import contextlib
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh, types
from agentrl.model import fold, microbatch, pieces, policy, value
from agentrl.model.fold import FoldedRows
from agentrl.model.pieces import MicroBatch
from agentrl.nn import attention, layers, transformer
from agentrl.types import Outputs
from tests.model.rows import make

N, T, WORDS = 24, 12, 7


def made_up(seed: int, packed: bool) -> types.Rows:
  """Rows that begin with one of three beginnings and go on as they like."""
  r = np.random.default_rng(seed)
  tokens, seg = np.zeros((N, T), np.int32), np.full((N, T), -1, np.int32)
  begins = r.integers(0, WORDS, (3, T))
  for n in range(N):
    size, own = (int(x) for x in r.integers(0, T + 1, 2))
    row = np.concatenate([begins[n % 3, :own], r.integers(0, 2, T - own)])
    tokens[n, :size], seg[n, :size] = row[:size], 0
    if packed and n % 4 == 0:
      seg[n, size // 2 : size] = 1
  sampled = (r.random((N, T)) < 0.5) & (seg >= 0) & (r.random((N, 1)) < 0.8)
  weight = jnp.asarray(sampled * r.random((N, T)), jnp.float32)
  return make(tokens, sampled, seg, weight=weight)


def beginnings(rows: types.Rows, of) -> set[tuple]:
  """Distinct tokens of rows: all that a token has seen, and itself."""
  out = set()
  for n in of:
    seg, tokens = np.asarray(rows.seg[n]), np.asarray(rows.tokens[n])
    whole = len(set(seg[seg >= 0])) <= 1
    for t in np.flatnonzero(seg >= 0):
      own = () if whole else (int(n),)
      mine = tokens[: t + 1][seg[: t + 1] == seg[t]]
      out.add((*own, int(seg[t]) if own else 0, *mine.tolist()))
  return out


@pytest.mark.parametrize('packed', [False, True])
def test_each_beginning_stands_once_and_is_found(packed):
  rows = made_up(0, packed)
  keep = np.arange(N) % 5 != 1
  order = np.asarray(jax.jit(fold.order)(rows.tokens, rows.seg, keep))
  assert sorted(order) == list(range(N))
  kept = order[: keep.sum()]
  assert set(kept) == set(np.flatnonzero(keep))
  at = jax.tree.map(lambda x: x[kept], rows)
  lay = jax.jit(fold.fold, static_argnums=3)
  f = lay(at.tokens, at.seg, microbatch.wanted(at), N * T)
  source, until = np.asarray(f.source[0]), np.asarray(f.until[0])
  used = int(np.sum(source < len(kept) * T))
  assert used == len(beginnings(rows, kept))
  assert np.all(until[used:] == -1)
  tokens = np.asarray(at.tokens).reshape(-1)[source[:used]]
  for m, t in zip(*np.nonzero(np.asarray(at.seg) >= 0), strict=True):
    stands = int(f.place[m, t])
    seen = [j for j in range(stands + 1) if until[j] >= stands]
    same = np.asarray(at.seg[m, : t + 1]) == int(at.seg[m, t])
    want = np.asarray(at.tokens[m, : t + 1])[same]
    np.testing.assert_array_equal(tokens[seen], want)
  wanted = np.asarray(microbatch.wanted(at))
  np.testing.assert_array_equal(
    np.flatnonzero(wanted), np.asarray(f.wanted[0])[: wanted.sum()]
  )


def test_padding_is_shared_with_nothing():
  """Also where it has the number of the neighbour's token."""
  r = np.random.default_rng(0)
  for _ in range(20):
    size = r.integers(0, T + 1, N)
    live = np.arange(T)[None] < size[:, None]
    tokens = r.integers(0, 2, (N, 1)) * live  # 0 is padding, and a token
    tokens = np.where(r.random((N, 1)) < 0.5, 0, tokens).astype(np.int32)
    seg = np.where(live, 0, -1).astype(np.int32)
    want = [0]
    for above, row in zip(range(N - 1), range(1, N), strict=True):
      both = min(size[above], size[row])
      same = tokens[above, :both] == tokens[row, :both]
      want.append(both if same.all() else int(np.argmin(same)))
    got = fold.shared(jnp.asarray(tokens), jnp.asarray(seg))
    np.testing.assert_array_equal(got, want)


def test_a_micro_batch_is_closed_where_the_next_row_would_not_fit():
  r = np.random.default_rng(0)
  cut = jax.jit(fold.cut, static_argnums=(4, 5, 6))
  for _ in range(50):
    length = r.integers(1, T + 1, N)
    begun = np.minimum(r.integers(0, T, N), length) * (np.arange(N) > 0)
    wanted, count = r.integers(0, length + 1), int(r.integers(0, N + 1))
    got = cut(length, begun, wanted, np.arange(N) < count, 3 * T, 7, 8)
    pieces, tokens, asks, most = [], 0, 0, 0
    for n in range(count):
      more, also = tokens + length[n] - begun[n], asks + wanted[n]
      if not pieces or more > 3 * T or also > 3 * T or len(pieces[-1]) == 7:
        pieces.append([])
        more, also = length[n], wanted[n]
      pieces[-1].append(n)
      tokens, asks = more, also
      most = max(most, tokens, asks)
    assert len(pieces) <= 8  # any three rows fit
    assert got[2] == most
    want = [x[0] for x in pieces], [len(x) for x in pieces]
    for x, y in zip(got[:2], want, strict=True):
      np.testing.assert_array_equal(np.asarray(x)[: len(pieces)], y)
    assert not np.any(np.asarray(got[1])[len(pieces) :])


def averager() -> types.Module:
  """Log-probs of what a token has seen, fading with the distance; float64."""

  def states(params, tokens, until):
    at = layers.positions(until)
    gap = at[:, :, None] - at[:, None]
    fade = jnp.where(attention.row_mask(until), 0.8 ** jnp.maximum(gap, 0), 0)
    return jnp.einsum('nts,nsd->ntd', fade, params['embed'][tokens])

  def apply(params, rows, needs):
    del needs
    if isinstance(rows, FoldedRows):
      f = rows.fold
      hidden = states(params, fold.pick(rows.tokens, f.source), f.until)
      before, tokens = fold.before_wanted(hidden, f), rows.tokens
      tokens = fold.pick(tokens, f.wanted)
    else:
      hidden = states(params, rows.tokens, layers.segment_until(rows.seg))
      before, tokens = (
        jnp.pad(hidden[:, :-1], ((0, 0), (1, 0), (0, 0))),
        (rows.tokens),
      )
    logp = jax.nn.log_softmax(jnp.tanh(before) @ params['head'])
    logp = jnp.take_along_axis(logp, tokens[..., None], -1)[..., 0]
    if isinstance(rows, FoldedRows):
      return Outputs(logp=fold.spread(logp, f))
    return Outputs(logp=jnp.where(microbatch.wanted(rows), logp, 0))

  return types.Module({}, apply)


def gradient(module, params, rows, scale, micro, needs=('logp',)):
  """Of a weighted sum of the outputs; and the outputs themselves."""

  def loss(out, rows, scale):
    fields = [x for x in vars(out).values() if x is not None]
    each = sum(x.reshape(*x.shape[:2], -1).sum(-1) for x in fields)
    scale = rows.weight * scale
    return jnp.sum(scale * each), {'n': jnp.sum(scale != 0)}

  total = microbatch.objective(module.apply, needs, loss)

  def run(params, rows, scale):
    keep = jnp.arange(N) % 7 != 3  # others weigh nothing, as in a minibatch
    own = scale * keep[:, None]
    grads = microbatch.gradient(total, params, rows, own, micro, keep)
    return grads, microbatch.forward(module.apply, params, rows, needs, micro)

  return jax.jit(run)(params, rows, scale)


def in_places(rows, micro):
  """Places of the longest row, of the largest micro-batch, and some more."""
  keep = jnp.arange(N) % 7 != 3
  count = int(pieces.places(rows, keep & microbatch.live(rows), micro))
  longest = int(pieces.longest(rows))
  assert longest <= T < count < pieces.capacity(micro, T)
  return [micro._replace(places=n) for n in (longest, count, count + T)]


@pytest.mark.slow
def test_in_float64_gradients_are_those_of_the_rows():
  r = np.random.default_rng(1)
  with jax.enable_x64(True):
    rows, module = made_up(2, packed=True), averager()
    params = {
      'embed': jnp.asarray(r.normal(size=(WORDS, 5))),
      'head': jnp.asarray(r.normal(size=(5, WORDS))),
    }
    args = module, params, rows, jnp.asarray(r.normal(size=(N, T)))
    want = gradient(*args, 4)
    folded = MicroBatch(4, fold=True)
    for micro in (MicroBatch(1, fold=True), folded, *in_places(rows, folded)):
      got = gradient(*args, micro)
      for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


SHAPE = transformer.DecoderConfig(
  vocab=WORDS, width=8, layers=1, heads=2, kv_heads=1, head_dim=4, mlp=8
)
CASES = {
  'policy': (policy.module(SHAPE, 0.7, heads=1), ('entropy', 'logp', 'value')),
  'critic': (value.module(SHAPE, heads=2), ('value',)),
}


def of_decoder(name: str, micro):
  """Rows, and gradients and outputs of the decoder."""
  module, needs = CASES[name]
  params = mesh.init(module.specs, jax.random.key(0))
  rows, scale = made_up(4, packed=True), np.random.default_rng(3).normal(size=N)
  scale = np.float32(scale[:, None] + np.zeros((N, T)))
  rows, scale = jax.tree.map(
    lambda x: mesh.with_logical_sharding(jnp.asarray(x), 'batch', None),
    (rows, scale),
  )
  return rows, gradient(module, params, rows, scale, micro, needs)


@functools.cache
def unfolded(name: str):
  return of_decoder(name, 8)


def on_a_mesh(name: str, sizes: dict, marks=pytest.mark.slow):
  return pytest.param(name, sizes, marks=marks, id=f'{name}-{"-".join(sizes)}')


@pytest.mark.parametrize(
  ('name', 'sizes'),
  [
    ('policy', {}),
    pytest.param('critic', {}, marks=pytest.mark.nightly),
    on_a_mesh('critic', {'data': 2, 'sequence': 2}, ()),
    on_a_mesh('policy', {'data': 2, 'fsdp': 2}, pytest.mark.nightly),
    on_a_mesh('policy', {'fsdp': 2, 'sequence': 2}),
    on_a_mesh('policy', {'data': 8}, pytest.mark.nightly),
  ],
)
def test_outputs_and_gradients_of_decoders(name, sizes):
  rows, want = unfolded(name)
  _, needs = CASES[name]
  on = jax.set_mesh(mesh.make(sizes)) if sizes else contextlib.nullcontext()
  with on:
    _, got = of_decoder(name, MicroBatch(8, fold=True))
  wanted = microbatch.wanted(rows)
  for x, y in zip(
    jax.tree.leaves(got[0]), jax.tree.leaves(want[0]), strict=True
  ):
    np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
  for need in needs:
    x, y = (np.asarray(vars(z[1])[need])[wanted] for z in (got, want))
    np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
