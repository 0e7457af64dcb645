"""Kernels of other libraries against blocks, and which of them is chosen."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh
from agentrl.nn import (
  attention_kernels,
  chunked_attention,
  layers,
  transformer,
)
from agentrl.nn.chunked_attention import AttentionConfig
from tests.nn.trees_test import forest

LONG = attention_kernels.SHORT + 128


def example(n: int, t: int, h: int, g: int, d: int):
  """q, k, v, until: packed, and ending in padding; a cotangent."""
  r = np.random.default_rng(0)
  q, bar = r.normal(size=(2, n, t, h, d)).astype(np.float32)
  k, v = r.normal(size=(2, n, t, g, d)).astype(np.float32)
  seg = np.zeros((n, t), np.int32)
  seg[0, t // 3 :], seg[0, t - 5 :] = 3, -1
  bar *= (seg >= 0)[..., None, None]
  return q, k, v, layers.segment_until(jnp.asarray(seg)), bar


def pulled(attend, q, k, v, until, bar):
  """Answers and cotangents of q, k, v."""
  out, pull = jax.vjp(lambda *a: attend(*a, until), q, k, v)
  return out, *pull(bar)


def check(kernel, c: AttentionConfig, args):
  one = lambda *a: kernel(c, *a)[0]  # noqa: E731
  got = jax.jit(functools.partial(pulled, one))(*args)
  want = jax.jit(
    functools.partial(pulled, functools.partial(chunked_attention.attend, c))
  )(*args)
  # Each kernel has answers of its own for padding, which nobody reads.
  live = args[3] >= 0
  got, want = ([x * live[..., None, None] for x in xs] for xs in (got, want))
  chex.assert_trees_all_close(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
  'c', [AttentionConfig(), AttentionConfig(window=5, size=7)], ids=str
)
def test_what_cudnn_is_asked_for(c):
  """The same call, done by XLA."""
  kernel = functools.partial(attention_kernels._cudnn, implementation='xla')
  check(kernel, c, example(2, 21, 4, 2, 8))
  check(kernel, c, trees(2, 21, 4, 2, 8))


@pytest.mark.nightly
@pytest.mark.parametrize('tokens', [256, 201])
@pytest.mark.parametrize(
  'c', [AttentionConfig(), AttentionConfig(window=50, size=7, cap=3.0)], ids=str
)
def test_splash_in_its_interpreter(c, tokens):
  kernel = functools.partial(attention_kernels._splash, interpret=True)
  check(kernel, c, example(2, tokens, 4, 2, 16))


@pytest.mark.parametrize(
  ('remat', 'forwards'),
  [('none', 1), ('dots', 1), ('attention', 1), ('layer', 2)],
)
def test_what_cudnn_answers_is_kept(remat, forwards, monkeypatch):
  """Kernels of a layer in its gradient, which is traced and not compiled."""
  library = 'jax._src.cudnn.fused_attention_stablehlo'
  monkeypatch.setattr(f'{library}.check_cudnn_version', lambda: 91000)
  c = transformer.DecoderConfig(
    vocab=11,
    width=8,
    layers=1,
    heads=2,
    kv_heads=1,
    head_dim=64,
    mlp=8,
    dtype='bfloat16',
    remat=remat,
  )
  params = mesh.abstract(transformer.specs(c))
  tokens, until = jnp.zeros((1, 64), int), jnp.full((1, 64), 63)

  def loss(params):
    x, _ = transformer.forward_trees(c, params, tokens, until, 'cudnn')
    return jnp.sum(x.astype(jnp.float32))

  text = str(jax.make_jaxpr(jax.grad(loss))(params))
  assert text.count('dot_product_attention_fwd_wrapper[') == forwards
  assert text.count('dot_product_attention_bwd_wrapper[') == 1


def trees(n: int, t: int, h: int, g: int, d: int):
  """As `example`, of rows of trees: few branches, which cross blocks."""
  q, k, v, _, bar = example(n, t, h, g, d)
  r = np.random.default_rng(3)
  until = np.array([forest(r, t, 0.03)[1] for _ in range(n)], np.int32)
  bar *= (until >= 0)[..., None, None]
  return q, k, v, jnp.asarray(until), bar


READS_TREES = functools.partial(attention_kernels._splash_trees, interpret=True)


@pytest.mark.slow
def test_splash_reads_trees_of_a_block():
  check(READS_TREES, AttentionConfig(), trees(1, 100, 2, 1, 8))


@pytest.mark.nightly
@pytest.mark.parametrize(
  'c',
  [
    AttentionConfig(),
    AttentionConfig(window=50),
    AttentionConfig(window=150, size=7, cap=3.0),
  ],
  ids=str,
)
@pytest.mark.parametrize('tokens', [256, 201])
def test_splash_reads_trees(c, tokens, monkeypatch):
  """Two pieces of a row, of one block each."""
  monkeypatch.setattr(attention_kernels, 'ASKS', 128)
  check(READS_TREES, c, trees(3, tokens, 4, 2, 16))


@pytest.mark.nightly
def test_splash_of_trees_is_lowered_for_tpus():
  """Forwards and backwards, and never with the masks of all pieces of a row."""
  c = AttentionConfig(window=700, cap=3.0)
  run = functools.partial(
    pulled, lambda *a: attention_kernels._splash_trees(c, *a)[0]
  )
  args = trees(1, attention_kernels.ASKS + 1, 4, 2, 64)  # padded to 1,280
  lowered = jax.jit(run).trace(*args).lower(lowering_platforms=('tpu',))
  text = lowered.as_text()
  assert 'tpu_custom_call' in text
  assert '<1x640x1280xi1>' in text
  assert '<2x1x640x1280xi1>' not in text


@pytest.mark.nightly
@pytest.mark.parametrize('explicit', [True, False])
def test_splash_reads_trees_in_layers_on_a_mesh(explicit, monkeypatch):
  """Gradients of a decoder whose layers are computed again, in a loop."""
  monkeypatch.setattr(attention_kernels, 'ASKS', 128)
  monkeypatch.setitem(attention_kernels.KERNELS, 'splash_trees', READS_TREES)
  c = transformer.DecoderConfig(
    vocab=11,
    width=8,
    layers=transformer.UNROLL + 1,
    heads=2,
    kv_heads=1,
    head_dim=4,
    mlp=8,
    remat='layer',
  )
  r = np.random.default_rng(4)
  tokens = r.integers(0, 11, (2, 150)).astype(np.int32)
  until = np.array([forest(r, 150, 0.03)[1] for _ in range(2)], np.int32)
  params = mesh.init(transformer.specs(c), jax.random.key(0))
  bar = r.normal(size=(2, 150, 8)) * (until >= 0)[..., None]

  def loss(params, name):
    x, _ = transformer.forward_trees(
      c, params, jnp.asarray(tokens), jnp.asarray(until), name
    )
    return jnp.sum(x * bar) / tokens.size

  with jax.set_mesh(mesh.make({'data': 2, 'tensor': 1}, explicit=explicit)):
    run = jax.jit(jax.value_and_grad(loss), static_argnums=1)
    got, want = run(params, 'splash_trees'), run(params, 'chunked')
  chex.assert_trees_all_close(got, want, rtol=1e-5, atol=1e-5)


@pytest.fixture
def said(monkeypatch):
  """What was announced."""
  out = []
  monkeypatch.setattr(attention_kernels, '_announce', out.append)
  return out


@pytest.mark.parametrize(
  ('here', 'want', 'reason'),
  [
    (dict(), 'chunked', ''),
    (dict(tokens=attention_kernels.SHORT), 'xla', ''),
    (dict(name='xla'), 'xla', ''),
    (dict(name='chunked', tokens=8), 'chunked', ''),
    (dict(name='cudnn'), 'chunked', 'needs a gpu, and this is a cpu'),
    (dict(name='splash', tokens=8), 'xla', 'needs a tpu'),
    (dict(device='gpu'), 'cudnn', ''),
    (dict(device='gpu', dtype='float32'), 'chunked', "dtype='bfloat16'"),
    (dict(device='gpu', cap=30.0), 'chunked', 'without a soft cap'),
    (dict(device='gpu', head_dim=256), 'chunked', 'head_dim=256'),
    (dict(device='gpu', name='splash'), 'chunked', 'needs a tpu'),
    (dict(device='gpu', tokens=8, dtype='float32'), 'xla', ''),
    (dict(device='tpu'), 'splash', ''),
    (dict(device='tpu', cap=30.0), 'splash', ''),
    (dict(device='tpu', tokens=LONG + 1), 'splash', ''),
  ],
  ids=str,
)
def test_choice(here, want, reason, said, monkeypatch):
  ask = dict(name='auto', tokens=LONG, head_dim=64, dtype='bfloat16', cap=0.0)
  device = here.get('device', 'cpu')
  monkeypatch.setattr(attention_kernels.jax, 'default_backend', lambda: device)
  ask |= {k: v for k, v in here.items() if k != 'device'}
  assert attention_kernels.choose(**ask) == want
  assert len(said) == bool(reason)
  assert all(reason in x and repr(want) in x for x in said)


def test_a_fallback_is_said_once(monkeypatch):
  told = []
  monkeypatch.setattr(
    attention_kernels.logging, 'warning', lambda *a: told.append(a)
  )
  for _ in range(3):
    attention_kernels.choose('cudnn', 4096, 64, 'bfloat16', 0.0)
  assert len(told) == 1


@pytest.mark.parametrize(
  ('device', 'reads'),
  [
    ('cpu', {}),
    ('tpu', {'auto': 'splash_trees', 'splash': 'splash_trees'}),
    ('gpu', {'auto': 'cudnn', 'cudnn': 'cudnn'}),
  ],
)
def test_kernels_that_read_trees(device, reads, monkeypatch):
  monkeypatch.setattr(jax, 'default_backend', lambda: device)
  read = {
    x for x in attention_kernels.NAMES if attention_kernels.reads_trees(x)
  }
  assert read == set(attention_kernels.NAMES) - {'xla'}
  choose = functools.partial(
    attention_kernels.choose_for_trees, head_dim=64, dtype='bfloat16', cap=0.0
  )
  assert {x: choose(x) for x in attention_kernels.NAMES} == {
    x: reads.get(x, 'chunked') for x in attention_kernels.NAMES
  }


def test_trees_that_cudnn_cannot_read_are_read_in_blocks(said, monkeypatch):
  monkeypatch.setattr(jax, 'default_backend', lambda: 'gpu')
  choose = attention_kernels.choose_for_trees
  assert choose('auto', 64, 'float32', 0.0) == 'chunked'
  assert ['rows of trees' in x for x in said] == [True]


def test_trees_whose_tokens_are_split_are_read_in_blocks(said, monkeypatch):
  monkeypatch.setattr(jax, 'default_backend', lambda: 'tpu')
  with jax.set_mesh(mesh.make({'data': 1, 'sequence': 2})):
    names = 'auto', 'splash'
    choose = attention_kernels.choose_for_trees
    read = {choose(x, 64, 'bfloat16', 0.0) for x in names}
  assert read == {'chunked'}
  assert ['splits them' in x for x in said] == [True]
