"""Directories written and read back, whole, in shards and broken."""

import json
import os

import huggingface_hub
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy as tensors

from agentrl import mesh
from agentrl.model import hf_config, hf_weights
from agentrl.nn import transformer
from tests import checkpoints, errors, hostile

SIZES = {
  'vocab_size': 24,
  'hidden_size': 16,
  'intermediate_size': 20,
  'num_hidden_layers': 3,
  'num_attention_heads': 4,
  'num_key_value_heads': 2,
  'head_dim': 6,
}
CONFIGS = {
  'qwen2': {'tie_word_embeddings': True, 'head_dim': 4},
  'qwen3': {},
  'qwen3_moe': {
    'num_experts': 2,
    'num_experts_per_tok': 1,
    'moe_intermediate_size': 12,
  },
  'llama': {'attention_bias': True, 'mlp_bias': True},
  'gemma2': {},
  'gemma3_text': {},
}


def config(kind: str) -> hf_config.Config:
  return {'model_type': kind, **SIZES, **CONFIGS[kind]}


def parameters(kind: str, dtype: str = 'float32'):
  """Random numbers that the dtype holds exactly."""
  rng = np.random.default_rng(0)
  specs = transformer.specs(hf_config.shape(config(kind)))
  return jax.tree.map(
    lambda p: rng.normal(size=p.shape).astype(jnp.dtype(dtype)).astype('f4'),
    specs,
    is_leaf=mesh.is_param,
  )


def equal(a, b):
  assert jax.tree.structure(a) == jax.tree.structure(b)
  jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.fixture
def saved(tmp_path):
  """Of qwen3, in two files or more."""
  hf_weights.write(
    tmp_path, config('qwen3'), parameters('qwen3'), file_bytes=8_000
  )
  return tmp_path


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16'])
@pytest.mark.parametrize('kind', CONFIGS)
def test_back_bit_for_bit(kind, dtype, tmp_path):
  params = parameters(kind, dtype)
  hf_weights.write(
    tmp_path, config(kind), params, dtype=dtype, file_bytes=4_000
  )
  assert len(list(tmp_path.glob('*.safetensors'))) > 2
  read = hf_config.read(tmp_path)
  assert read['dtype'] == dtype
  equal(hf_weights.read(tmp_path, hf_config.shape(read)), params)


def test_one_file_needs_no_index(tmp_path):
  params = parameters('gemma2')
  value = {'value': np.zeros((16, 1), np.float32)}  # stands beside the decoder
  hf_weights.write(tmp_path, config('gemma2'), params | value)
  names = {file.name for file in tmp_path.iterdir()}
  assert names == {'config.json', 'model.safetensors'}
  equal(hf_weights.read(tmp_path, hf_config.shape(config('gemma2'))), params)


def test_files_hold_what_the_index_says(saved):
  index = json.loads((saved / hf_weights.INDEX).read_text())
  size = 0
  for file in saved.glob('*.safetensors'):
    held = tensors.load_file(file)
    assert {index['weight_map'][name] for name in held} == {file.name}
    bytes_held = sum(x.nbytes for x in held.values())
    assert bytes_held <= 8_000 or len(held) == 1
    size += bytes_held
  assert index['metadata']['total_size'] == size


def test_matrices_are_turned_head_by_head(tmp_path):
  params = parameters('llama')
  hf_weights.write(tmp_path, config('llama'), params)
  held = tensors.load_file(tmp_path / 'model.safetensors')
  layer, own = 'model.layers.2.', jax.tree.map(lambda x: x[2], params['layers'])
  q, o = held[layer + 'self_attn.q_proj.weight'], own['o']
  for head in range(4):
    np.testing.assert_array_equal(
      q[6 * head : 6 * head + 6], own['q'][:, head].T
    )
    np.testing.assert_array_equal(
      held[layer + 'self_attn.o_proj.weight'][:, 6 * head : 6 * head + 6],
      o[head].T,
    )
  np.testing.assert_array_equal(
    held[layer + 'self_attn.k_proj.bias'], own['k_bias'].reshape(-1)
  )
  np.testing.assert_array_equal(held['lm_head.weight'], params['head'].T)
  np.testing.assert_array_equal(
    held['model.embed_tokens.weight'], params['embed']
  )


@pytest.mark.parametrize(
  ('kind', 'explicit'),
  [
    ('qwen3_moe', True),
    pytest.param('qwen2', False, marks=pytest.mark.nightly),
  ],
)
def test_each_shard_is_read_alone(kind, explicit, tmp_path, monkeypatch):
  params, shape = parameters(kind), hf_config.shape(config(kind))
  hf_weights.write(tmp_path, config(kind), params)
  sizes, read = [], hf_weights._read

  def spy(*args):
    out = read(*args)
    sizes.append(out.size)
    return out

  monkeypatch.setattr(hf_weights, '_read', spy)
  with jax.set_mesh(mesh.make({'fsdp': 2, 'tensor': 2}, explicit=explicit)):
    got = hf_weights.read(tmp_path, shape)
    want = mesh.shardings(transformer.specs(shape))
    assert jax.tree.map(lambda x: x.sharding, got) == want
    largest = max(
      shard.data.size
      for x in jax.tree.leaves(got)
      for shard in x.addressable_shards
    )
    equal(got, params)
    hf_weights.write(tmp_path / 'again', config(kind), got)
  assert max(sizes) == largest < max(x.size for x in jax.tree.leaves(params))
  equal(hf_weights.read(tmp_path / 'again', shape), params)


def test_names_of_a_model_that_reads_images(tmp_path):
  """Its text model, under both prefixes that are in use."""
  params, shape = (
    parameters('gemma3_text'),
    hf_config.shape(config('gemma3_text')),
  )
  hf_weights.write(tmp_path, config('gemma3_text'), params)
  file = tmp_path / 'model.safetensors'
  held = tensors.load_file(file)
  images = {'vision_tower.weight': np.zeros(3, np.float32)}
  for old, new in (
    ('model.', 'language_model.model.'),
    ('model.', 'model.language_model.'),
  ):
    renamed = {name.replace(old, new, 1): x for name, x in held.items()}
    tensors.save_file(renamed | images, file)
    equal(hf_weights.read(tmp_path, shape), params)


def read(directory):
  return hf_weights.read(directory, hf_config.shape(config('qwen3')))


def edit(directory, change):
  """Replaces one file's tensors by change(tensors)."""
  file = sorted(directory.glob('*.safetensors'))[0]
  tensors.save_file(change(tensors.load_file(file)), file)


def test_a_missing_file_is_named(saved):
  file = sorted(saved.glob('*.safetensors'))[1]
  file.unlink()
  with errors.raises(ValueError, f'{file.name}'):
    read(saved)


@pytest.mark.parametrize('left', [0, 5, 100, -1])
def test_a_torn_file_is_named(saved, left):
  file = sorted(saved.glob('*.safetensors'))[1]
  file.write_bytes(file.read_bytes()[:left])
  with errors.raises(ValueError, f'{file.name}'):
    read(saved)


def test_tensors_of_another_model_are_named(saved):
  name = 'model.embed_tokens.weight'
  edit(saved, lambda x: x | {'extra': np.zeros(2, np.float32)})
  with pytest.raises(ValueError):
    read(saved)
  edit(
    saved, lambda x: {k: v for k, v in x.items() if k not in ('extra', name)}
  )
  with errors.raises(ValueError, f'{name}'):
    read(saved)
  edit(saved, lambda x: x | {name: np.zeros((9, 16), np.float32)})
  with errors.raises(ValueError, '9 16 24'):
    read(saved)
  edit(saved, lambda x: x | {name: np.zeros((24, 16), np.int8)})
  with errors.raises(ValueError, 'I8'):
    read(saved)


def test_a_directory_without_weights(saved):
  (saved / hf_weights.INDEX).write_text('{}')
  with pytest.raises(ValueError):
    read(saved)
  (saved / hf_weights.INDEX).unlink()
  for file in saved.glob('*.safetensors'):
    file.unlink()
  with pytest.raises(ValueError):
    read(saved)


def tied(directory, **changed):
  """A tied model whose one file is changed; what is read of it."""
  hf_weights.write(directory, config('qwen2'), parameters('qwen2'))
  edit(directory, lambda x: x | changed)
  return lambda: hf_weights.read(directory, hf_config.shape(config('qwen2')))


EMBED, HEAD = 'model.embed_tokens.weight', 'lm_head.weight'


def test_a_head_that_is_not_the_embedding_it_is_tied_to(tmp_path):
  """transformers uses the head of the file, whatever config.json says."""
  params = parameters('qwen2')
  same = tied(tmp_path / 'same', **{HEAD: params['embed']})
  equal(same(), params)
  other = params['embed'].copy()
  other[-1, -1] += 1e-3
  read = tied(tmp_path / 'other', **{HEAD: other})
  with errors.raises(ValueError, 'tie_word_embeddings'):
    read()
  with errors.raises(ValueError, 'tie_word_embeddings'):
    hf_weights.check(tmp_path / 'other', hf_config.shape(config('qwen2')))
  loose = config('qwen2') | {'tie_word_embeddings': False}
  got = hf_weights.read(tmp_path / 'other', hf_config.shape(loose))
  np.testing.assert_array_equal(got['head'], other.T)


def test_of_two_tied_tensors_either_will_do(tmp_path):
  read = tied(tmp_path)
  edit(tmp_path, lambda x: {HEAD if k == EMBED else k: v for k, v in x.items()})
  equal(read(), parameters('qwen2'))


def test_weights_in_the_layout_of_their_authors_are_left_alone(tmp_path):
  read = tied(tmp_path)
  stray = {'tok_embeddings.weight': np.zeros((2, 2), np.float32)}
  tensors.save_file(stray, tmp_path / 'consolidated.safetensors')
  equal(read(), parameters('qwen2'))
  (tmp_path / 'model.safetensors').unlink()
  with errors.raises(ValueError, 'consolidated.safetensors'):
    read()


def test_the_one_file_comes_before_an_index(saved):
  """As transformers takes them where a folder holds both."""
  edit(saved, lambda x: {k: v + 1 for k, v in x.items()})
  params = parameters('qwen3')
  whole = saved.parent / 'whole'
  hf_weights.write(whole, config('qwen3'), params)
  (whole / 'model.safetensors').rename(saved / 'model.safetensors')
  equal(read(saved), params)


def test_nothing_is_overwritten(saved):
  with pytest.raises(ValueError):
    hf_weights.write(saved, config('qwen3'), parameters('qwen3'))


def test_a_mesh_that_does_not_divide_the_heads(saved):
  with (
    jax.set_mesh(mesh.make({'tensor': 4})),
    errors.raises(ValueError, 'kv_heads 2 tensor 4'),
  ):
    read(saved)


def test_a_name_that_is_nowhere(tmp_path):
  assert hf_weights.locate(str(tmp_path)) == tmp_path
  with errors.raises(ValueError, 'model.path no/such-model'):
    hf_weights.locate('no/such-model')


def test_weights_are_fetched_when_they_are_needed(tmp_path, monkeypatch):
  calls = []

  def download(name, *, allow_patterns, local_files_only, **_):
    wanted = '*.safetensors' in allow_patterns
    calls.append((wanted, local_files_only))
    if local_files_only and not any(tmp_path.iterdir()):
      raise huggingface_hub.errors.LocalEntryNotFoundError(name)
    (tmp_path / 'config.json').touch()
    if wanted and not local_files_only:
      (tmp_path / 'model.safetensors').touch()
    return str(tmp_path)

  monkeypatch.setattr(huggingface_hub, 'snapshot_download', download)
  for weights, fetched in ((False, True), (False, False), (True, True)):
    assert hf_weights.locate('a/model', weights=weights) == tmp_path
    assert calls == [(weights, True), (weights, False)][: 1 + fetched]
    calls.clear()


@pytest.mark.parametrize(
  'name',
  [
    '../out.safetensors', '/out.safetensors', 'a/../../x.safetensors',
    'config.json', '', '.', '..', 'a\\b.safetensors', 'a\0.safetensors',
    5, None, [], {}, True,
  ],
)  # fmt: skip
def test_an_index_names_files_of_its_folder_alone(saved, name):
  index = saved / hf_weights.INDEX
  table = json.loads(index.read_text())
  table['weight_map'] = dict.fromkeys(table['weight_map'], name)
  index.write_text(json.dumps(table))
  with pytest.raises(ValueError):
    read(saved)


@pytest.mark.parametrize('text', hostile.VALUES, ids=lambda x: x[:20])
def test_an_index_that_is_none_is_refused(saved, text):
  for whole in (text, f'{{"weight_map": {text}}}'):
    (saved / hf_weights.INDEX).write_text(whole)
    with pytest.raises(ValueError):
      read(saved)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
  for name in ('config.json', hf_weights.WHOLE, 'tokenizer.json'):
    folder = checkpoints.model(tmp_path / name)
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(ValueError):
      hf_config.read(folder)


@pytest.mark.parametrize('number', [np.nan, np.inf, 1e300])
def test_a_number_that_is_not_finite_is_named(tmp_path, number):
  folder = checkpoints.model(tmp_path / 'm')
  file, name = folder / hf_weights.WHOLE, 'model.layers.1.mlp.up_proj.weight'
  parts = tensors.load_file(file)
  parts[name] = parts[name].astype(np.float64)
  parts[name][3, 5] = number
  tensors.save_file(parts, file)
  shape = hf_config.shape(hf_config.read(folder))
  with errors.raises(ValueError, f'{name}'):
    hf_weights.read(folder, shape)


def test_a_tensor_that_is_there_twice_is_refused(tmp_path):
  folder = checkpoints.model(tmp_path / 'm')
  file, name = folder / hf_weights.WHOLE, 'model.norm.weight'
  parts = tensors.load_file(file)
  shape = hf_config.shape(hf_config.read(folder))
  twin = {f'language_model.{name}': parts[name] * 2}
  tensors.save_file(parts | twin, file)
  with pytest.raises(ValueError):
    hf_weights.read(folder, shape)
  tensors.save_file(parts, folder / 'model-1.safetensors')
  tensors.save_file(parts, folder / 'model-2.safetensors')
  file.unlink()
  with pytest.raises(ValueError):
    hf_weights.read(folder, shape)
