"""Adapters: what they add, where they lie, what they leave alone."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh
from agentrl.nn import decode, lora, transformer
from tests import errors

DENSE = transformer.DecoderConfig(
  vocab=20,
  width=16,
  layers=2,
  heads=4,
  kv_heads=2,
  head_dim=4,
  mlp=12,
  windows=(0, 5),
  bias=True,
  attention='xla',
)
EXPERTS = dataclasses.replace(DENSE, windows=(), experts=4, top_k=2)
ALL = lora.Lora(rank=3, alpha=6.0, pattern='.*')
N, T = 2, 12


def drawn(specs, std: float, seed: int = 0):
  r = np.random.default_rng(seed)
  return jax.tree.map(
    lambda p: jnp.float32(std * r.normal(size=p.shape)),
    specs,
    is_leaf=mesh.is_param,
  )


def base(c: transformer.DecoderConfig):
  return drawn(transformer.specs(c), 0.3)


def adapter(how: lora.Lora, c: transformer.DecoderConfig, seed: int = 0):
  return drawn(lora.specs(how, transformer.specs(c)['layers']), 0.3, seed)


def rows():
  r = np.random.default_rng(1)
  seg = np.zeros((N, T), np.int32)
  seg[0, 7:], seg[1, 10:] = 4, -1
  return r.integers(0, DENSE.vocab, (N, T)).astype(np.int32), seg


def hidden(c, params):
  tokens, seg = rows()
  out = jax.jit(transformer.forward, static_argnums=0)(c, params, tokens, seg)
  return np.where((seg >= 0)[..., None], out, 0)


def equal(a, b):
  assert jax.tree.structure(a) == jax.tree.structure(b)
  jax.tree.map(np.testing.assert_array_equal, a, b)


def test_shapes_and_axes_come_from_the_base():
  specs = lora.specs(ALL, transformer.specs(EXPERTS)['layers'])
  assert tuple(specs) == tuple(lora.INPUTS)
  told = {
    name: [(p.shape, p.axes) for p in sides.values()]
    for name, sides in specs.items()
  }
  assert told['o'] == [
    ((2, 4, 4, 3), ('layers', 'heads', None, None)),
    ((2, 3, 16), ('layers', None, 'embed')),
  ]
  assert told['k'] == [
    ((2, 16, 3), ('layers', 'embed', None)),
    ((2, 3, 2, 4), ('layers', None, 'kv_heads', None)),
  ]
  assert told['down'] == [
    ((2, 4, 12, 3), ('layers', 'expert', 'mlp', None)),
    ((2, 4, 3, 16), ('layers', 'expert', None, 'embed')),
  ]


def test_pattern_chooses_whole_names():
  layers = transformer.specs(DENSE)['layers']
  chosen = lambda pattern: set(lora.specs(lora.Lora(2, 1, pattern), layers))  # noqa: E731
  assert chosen('q|v') == {'q', 'v'}
  assert chosen('[a-z]{2,}') == {'gate', 'up', 'down'}  # no norm, no bias


def test_begins_as_the_base():
  """To the bit: b is zero, a is not."""
  specs = transformer.specs(DENSE)['layers']
  begun = mesh.init(lora.specs(ALL, specs), jax.random.key(1))
  params = base(DENSE)
  assert all(np.all(x['b'] == 0) and np.any(x['a']) for x in begun.values())
  attached = lora.attach(ALL, params, begun)
  np.testing.assert_array_equal(hidden(DENSE, attached), hidden(DENSE, params))
  equal(lora.merge(attached), params)


@pytest.mark.parametrize('c', [DENSE, EXPERTS], ids=['dense', 'experts'])
def test_on_the_fly_is_merged(c):
  attached = lora.attach(ALL, base(c), adapter(ALL, c))
  got, want = hidden(c, attached), hidden(c, lora.merge(attached))
  np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
  assert np.max(np.abs(got - hidden(c, base(c)))) > 0.1


def test_merged_in_float64():
  """w + alpha / rank a b, of every matrix and of nothing else."""
  params, beside = base(EXPERTS), adapter(ALL, EXPERTS)
  merged = lora.merge(lora.attach(ALL, params, beside))
  formulas = {
    **dict.fromkeys('qkv', 'ldr,lrhe->ldhe'),
    'o': 'lher,lrd->lhed',
    **dict.fromkeys(('gate', 'up', 'down'), 'lxdr,lxrf->lxdf'),
  }
  for name, w in params['layers'].items():
    want = np.float64(w)
    if name in formulas:
      a, b = (np.float64(x) for x in beside[name].values())
      want = want + 2.0 * np.einsum(formulas[name], a, b)
    got = merged['layers'][name]
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
  assert merged['embed'] is params['embed']


def test_decodes_as_it_reads():
  """Token by token through the cache, as a whole row does."""
  params = lora.attach(ALL, base(DENSE), adapter(ALL, DENSE))
  tokens, whole = rows()[0], hidden(DENSE, params)

  @jax.jit
  def read_on(params, tokens):
    loose = decode.prepare_decode_params(DENSE, params)
    read = decode.empty(DENSE, N, 3)
    out = []
    for t in range(3):
      at = jnp.full(N, t, jnp.int32)
      x, read = decode.forward_with_cache(
        DENSE, loose, read, tokens[:, t, None], at
      )
      out.append(x)
    return jnp.concatenate(out, 1)

  got = read_on(params, tokens[:, :3])
  np.testing.assert_allclose(got, whole[:, :3], rtol=2e-5, atol=2e-5)


@pytest.mark.nightly
def test_rows_of_several_adapters_are_those_of_each():
  """A row is what its own adapter makes of it, whatever the others do."""
  stored = base(DENSE)
  trees = [
    decode.prepare_decode_params(DENSE, lora.attach(ALL, stored, x))
    for x in (adapter(ALL, DENSE, seed=i) for i in range(3))
  ]
  stacked = lora.stack(trees)
  assert stacked['embed'] is trees[0]['embed']
  tokens = np.repeat(rows()[0], 2, axis=0)[:, :5]

  def read(params, tokens):
    empty = decode.empty(DENSE, len(tokens), 5)
    out = decode.forward_with_cache(DENSE, params, empty, tokens, None)
    return jax.tree.map(np.asarray, out)

  which = np.array([2, 0, 2, 1])
  got = read(lora.select(stacked, which), tokens)
  for n, m in enumerate(which):
    want = read(trees[m], tokens[n : n + 1])
    jax.tree.map(
      lambda x, y, n=n: np.testing.assert_allclose(x[n], y[0], atol=2e-6),
      got,
      want,
    )
  assert lora.select(trees[0], which)['layers'] == trees[0]['layers']


def test_gradient_is_that_of_the_merged_matrix():
  """da = s dw b', db = s a' dw, in float64 from the gradient of merged w."""
  params, beside = base(DENSE), adapter(ALL, DENSE)
  tokens, seg = rows()
  r = np.random.default_rng(3)
  bar = np.float32(r.normal(size=(N, T, 16))) * (seg >= 0)[..., None]

  def loss(params):
    return jnp.sum(transformer.forward(DENSE, params, tokens, seg) * bar)

  got = jax.jit(jax.grad(lambda x: loss(lora.attach(ALL, params, x))))(beside)
  merged = lora.merge(lora.attach(ALL, params, beside))
  dw = jax.jit(jax.grad(loss))(merged)['layers']
  for name, sides in got.items():
    d, a, b = (np.float64(x) for x in (dw[name], *beside[name].values()))
    sizes = a[0, ..., 0].size, b[0, 0].size  # inputs, outputs
    d = d.reshape(2, *sizes)
    a, b = a.reshape(2, sizes[0], 3), b.reshape(2, 3, sizes[1])
    da, db = 2 * d @ b.swapaxes(1, 2), 2 * a.swapaxes(1, 2) @ d
    for g, want in ((sides['a'], da), (sides['b'], db)):
      norm = np.max(np.abs(want))
      np.testing.assert_allclose(
        np.reshape(g, want.shape) / norm, want / norm, atol=2e-5
      )


@pytest.mark.nightly
def test_no_gradient_of_a_whole_matrix_is_made():
  """The compiled gradient holds no second copy of the adapted matrices."""
  c = dataclasses.replace(
    DENSE,
    vocab=8,
    width=64,
    mlp=128,
    heads=2,
    head_dim=32,
    windows=(),
    layers=12,
    remat='layer',
  )
  how = lora.Lora(2, 1.0, '.*')
  specs = transformer.specs(c)
  mine = mesh.abstract(lora.specs(how, specs['layers']))
  tokens = jax.ShapeDtypeStruct((1, 4), jnp.int32)

  def compiled(loss, x):
    params = mesh.abstract(specs)
    f = jax.jit(jax.grad(loss)).lower(x, params, tokens, tokens).compile()
    return f.memory_analysis().temp_size_in_bytes

  def adapted(x, params, tokens, seg):
    return jnp.sum(
      transformer.forward(c, lora.attach(how, params, x), tokens, seg) ** 2
    )

  def merged(x, params, tokens, seg):
    whole = lora.merge(lora.attach(how, params, x))
    return jnp.sum(transformer.forward(c, whole, tokens, seg) ** 2)

  bytes_of_matrices = 4 * mesh.count(
    {name: specs['layers'][name] for name in lora.INPUTS}
  )
  assert compiled(adapted, mine) < 0.25 * bytes_of_matrices
  assert compiled(merged, mine) > bytes_of_matrices


@pytest.mark.parametrize(
  'explicit', [True, pytest.param(False, marks=pytest.mark.nightly)]
)
def test_on_a_mesh(explicit):
  """The hidden states of one device, each side stored as its matrix is."""
  params, beside = base(DENSE), adapter(ALL, DENSE)
  want = hidden(DENSE, lora.attach(ALL, params, beside))
  specs = transformer.specs(DENSE)
  with jax.set_mesh(mesh.make({'fsdp': 2, 'tensor': 2}, explicit=explicit)):
    lay = lambda x, s: jax.device_put(x, mesh.shardings(s))  # noqa: E731
    beside = lay(beside, lora.specs(ALL, specs['layers']))
    whole = lora.attach(ALL, lay(params, specs), beside)
    np.testing.assert_allclose(hidden(DENSE, whole), want, rtol=1e-5, atol=1e-5)
    merged = jax.jit(lora.merge)(whole)
  assert beside['q']['b'].sharding.spec[2] == 'tensor'
  assert beside['q']['a'].sharding.spec[1] == ('fsdp', 'sequence')
  np.testing.assert_allclose(
    hidden(DENSE, jax.device_get(merged)), want, rtol=1e-5, atol=1e-5
  )


@pytest.mark.parametrize(
  ('fields', 'words'),
  [
    (dict(rank=0), 'lora.rank 0'),
    (dict(rank=-4), 'lora.rank -4'),
    (dict(rank=4, pattern='q|('), 'q|('),
  ],
)
def test_bad_input(fields, words):
  with errors.raises(ValueError, words):
    lora.Lora(**fields)


def test_pattern_of_nothing():
  layers = transformer.specs(DENSE)['layers']
  with errors.raises(ValueError, 'pattern q_proj'):
    lora.specs(lora.Lora(2, 1, 'q_proj'), layers)


def test_adapter_of_another_base():
  narrow = dataclasses.replace(DENSE, mlp=8)
  with pytest.raises(ValueError):
    lora.attach(ALL, base(DENSE), adapter(ALL, narrow))
  with errors.raises(ValueError, 'lora.rank 4'):
    lora.attach(
      dataclasses.replace(ALL, rank=4), base(DENSE), adapter(ALL, DENSE)
    )
  with errors.raises(ValueError, 'other'):
    lora.attach(ALL, base(DENSE), {'other': adapter(ALL, DENSE)['q']})
