"""The decoder against a plain NumPy one, and its cache against itself."""

import functools
import itertools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from agentrl import mesh
from agentrl.nn import kv_cache, transformer
from tests.nn import decoders

SLOW = pytest.mark.nightly
LONG = ('deep_windows', 'raw_experts')  # to compile
WITHIN_ALL = ('head', 'bias', 'qk_norm', 'positions')
ACTIVATIONS = {
  'silu': lambda x: x / (1 + np.exp(-x)),
  'gelu': lambda x: x * scipy.special.ndtr(x),
  'gelu_tanh': lambda x: (
    x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
  ),
}


def rotate(x, t, theta, stretch):
  half = x.size // 2
  out = np.empty_like(x)
  for i in range(half):
    angle = t / stretch * theta ** (-i / half)
    c, s = np.cos(angle), np.sin(angle)
    out[i] = x[i] * c - x[half + i] * s
    out[half + i] = x[half + i] * c + x[i] * s
  return out


def feed_forward(shape, w, y):
  """The MLP of one token, or the weighted sum of its experts'."""
  act = ACTIVATIONS[shape.activation]
  if not shape.experts:
    b = {n: w.get(f'{n}_bias', 0.0) for n in ('gate', 'up', 'down')}
    gate, up = y @ w['gate'] + b['gate'], y @ w['up'] + b['up']
    return (act(gate) * up) @ w['down'] + b['down']
  prob = np.exp(y @ w['router'])
  prob /= prob.sum()
  best = np.argsort(-prob)[: shape.top_k]
  total = prob[best].sum() if shape.unit_top_k else 1.0
  return sum(
    prob[e]
    / total
    * ((act(y @ w['gate'][e]) * (y @ w['up'][e])) @ w['down'][e])
    for e in best
  )


def numpy_logits(shape, params, tokens):
  """One sequence, float64, token by token and head by head."""
  p = jax.tree.map(lambda x: np.asarray(x, np.float64), params)

  def norm(s, x):
    x = x / np.sqrt(np.mean(x * x) + shape.eps)
    return (shape.norm_offset + s) * x

  x = [shape.embed_scale * p['embed'][t] for t in tokens]
  if shape.positions:
    x = [a + b for a, b in zip(x, p['positions'], strict=False)]
  for i in range(shape.layers):
    w = {name: a[i] for name, a in p['layers'].items()}
    window = shape.windows[i] if shape.windows else 0
    local = window and shape.local_theta
    theta = shape.local_theta if local else shape.theta
    stretch = shape.scaling.factor if shape.scaling and not local else 1.0
    qs, ks, vs = [], [], []
    for t, h in enumerate(x):
      y = norm(w['attn_norm'], h)
      q, k, v = (np.einsum('d,dhk->hk', y, w[n]) for n in 'qkv')
      if shape.bias:
        q, k, v = q + w['q_bias'], k + w['k_bias'], v + w['v_bias']
      if shape.qk_norm:
        q = np.stack([norm(w['q_norm'], a) for a in q])
        k = np.stack([norm(w['k_norm'], a) for a in k])
      qs.append([rotate(a, t, theta, stretch) for a in q])
      ks.append([rotate(a, t, theta, stretch) for a in k])
      vs.append(v)
    for t in range(len(x)):
      mixed = np.zeros((shape.heads, shape.head_dim))
      first = max(0, t - window + 1) if window else 0
      for h in range(shape.heads):
        g = h // (shape.heads // shape.kv_heads)
        score = np.array([qs[t][h] @ ks[s][g] for s in range(first, t + 1)])
        score /= np.sqrt(shape.query_size or shape.head_dim)
        if shape.score_cap:
          score = shape.score_cap * np.tanh(score / shape.score_cap)
        weight = np.exp(score)
        weight /= weight.sum()
        mixed[h] = sum(a * vs[first + j][g] for j, a in enumerate(weight))
      y = np.einsum('hk,hkd->d', mixed, w['o']) + w.get('o_bias', 0.0)
      h = x[t] + (norm(w['attn_post_norm'], y) if shape.post_norm else y)
      y = feed_forward(shape, w, norm(w['mlp_norm'], h))
      x[t] = h + (norm(w['mlp_post_norm'], y) if shape.post_norm else y)
  out = np.stack([norm(p['norm'], h) for h in x])
  return out @ (p['embed'].T if shape.tied else p['head'])


@pytest.mark.parametrize(
  'name',
  [
    pytest.param(x, marks=[SLOW] * (x in LONG + WITHIN_ALL))
    for x in decoders.SHAPES
  ],
)
def test_forward_is_the_plain_decoder(name):
  shape = decoders.SHAPES[name]
  params = decoders.random_parameters(shape)
  tokens = np.random.default_rng(0).integers(0, shape.vocab, (2, 9))
  seg = jnp.zeros((2, 9), jnp.int32)

  @jax.jit
  def run(params):
    hidden = transformer.forward(shape, params, jnp.asarray(tokens), seg)
    return transformer.logits(params, hidden, shape.logit_cap)

  got = run(params)
  want = np.stack([numpy_logits(shape, params, t) for t in tokens])
  np.testing.assert_allclose(got, want, atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize(
  ('chunk', 'name'),
  [
    pytest.param(1, 'all', marks=SLOW),
    (6, 'all'),
    pytest.param(1000, 'all', marks=SLOW),
    pytest.param(6, 'windows', marks=SLOW),
    pytest.param(6, 'experts', marks=SLOW),
  ],
)
def test_where_nobody_looks_nothing_is_promised_and_nothing_changes(
  chunk, name, monkeypatch
):
  """Hidden states and gradients of the positions that somebody looks at."""
  monkeypatch.setattr(transformer, 'CHUNK', chunk)
  shape = decoders.SHAPES[name]
  params = decoders.random_parameters(shape)
  rng = np.random.default_rng(3)
  tokens = jnp.asarray(rng.integers(0, shape.vocab, (3, 11)))
  seg = jnp.zeros((3, 11), jnp.int32).at[1, 6:].set(1).at[2, 8:].set(-1)
  look = jnp.zeros((3, 11), bool).at[:, 9].set(True).at[1, 4].set(True)
  bar = rng.normal(size=(3, 11, shape.width)) * look[..., None]

  def run(params, *look):
    return jnp.sum(bar * transformer.forward(shape, params, tokens, seg, *look))

  both = jax.jit(jax.value_and_grad(run))
  some, whole = (both(params, *x) for x in ((look,), ()))
  chex.assert_trees_all_close(some, whole, atol=1e-4, rtol=1e-4)


def test_segments_and_padding_are_separate_sequences():
  shape = decoders.SHAPES['all']
  params = decoders.random_parameters(shape)
  rng = np.random.default_rng(1)
  a, b = (rng.integers(0, shape.vocab, n).astype(np.int32) for n in (5, 7))
  packed = np.concatenate([a, b, [3, 3, 3]])[None].astype(np.int32)
  seg = np.array([[0] * 5 + [1] * 7 + [-1] * 3], np.int32)
  forward = jax.jit(functools.partial(transformer.forward, shape))
  hidden = forward(params, packed, jnp.asarray(seg))
  for part, at in ((a, slice(0, 5)), (b, slice(5, 12))):
    alone = forward(params, part[None], jnp.zeros((1, len(part)), jnp.int32))
    np.testing.assert_allclose(hidden[:, at], alone, atol=1e-5, rtol=1e-5)
  chex.assert_tree_all_finite(hidden)


def test_blocks_cover_every_position_once():
  for capacity in (1, 7, 128, 129, 300, 1000):
    layer = kv_cache.empty(2, capacity, 1, 2, jnp.float32)
    ends = [(b.low, b.low + b.k.shape[3]) for b in layer]
    assert ends[0][0] == 0
    assert ends[-1][1] == capacity
    assert all(a[1] == b[0] for a, b in itertools.pairwise(ends))


@SLOW
def test_alternating_windows_in_a_loop_on_a_mesh():
  """A deep stack folded by periods, its parameters split over devices."""
  shape = decoders.SHAPES['deep_windows']
  tokens = np.random.default_rng(5).integers(0, shape.vocab, (4, 9))
  seg = np.zeros((4, 9), np.int32)

  @jax.jit
  def run(params, *rows):
    def total(params):
      return jnp.mean(transformer.forward(shape, params, *rows) ** 3)

    return jax.value_and_grad(total)(params)

  def parameters():
    return mesh.init(transformer.specs(shape), jax.random.key(0))

  want = run(parameters(), tokens, seg)
  with jax.set_mesh(mesh.make({'fsdp': 2, 'tensor': 2})):
    rows = (
      mesh.with_logical_sharding(jnp.asarray(x), 'batch', None)
      for x in (tokens, seg)
    )
    got = run(parameters(), *rows)
  chex.assert_trees_all_close(got, want, atol=1e-4, rtol=1e-4)
