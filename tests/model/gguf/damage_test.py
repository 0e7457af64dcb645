"""Damaged GGUF files, and folders of theirs that are not whole."""

import os
import pathlib
import struct

import numpy as np
import pytest

from agentrl.model.gguf import file, folder
from agentrl.text import tokenizer
from tests.errors import raises

gguf = pytest.importorskip('gguf')
from tests import gguf_files  # noqa: E402  needs the package
from tests.model.gguf.folder_test import (  # noqa: E402
  MODELS,
  SIZES,
  cache,  # noqa: F401  a fixture
  written,
)

NAN = float('nan')
TOKENS = gguf_files.TOKENS
PIECES = {
  'model': 'llama',
  'tokens': ['<unk>', '<s>', *'abcdefgh', 'ab'],
  'types': [2, 3] + [1] * 9,
  'scores': [0.0, 0.0] + [-1.0] * 9,
}
TOKENIZER = 'tokenizer.ggml.'
# What is written -> the field that is named
WRONG = [
  (dict(extra={'split.count': 'x'}), 'split.count'),
  (dict(sizes={'attention.head_count': 3}), 'attention.head_count'),
  (dict(sizes={'attention.head_count': 0}), 'attention.head_count'),
  (dict(sizes={'block_count': 1.5}), 'block_count'),
  (dict(sizes={'context_length': 'x'}), 'context_length'),
  (
    dict(sizes={'attention.layer_norm_rms_epsilon': NAN}),
    'llama.attention.layer_norm_rms_epsilon',
  ),
  (dict(sizes={'rope.freq_base': 'x'}), 'rope.freq_base'),
  (dict(sizes={'rope.freq_base': [1e4, 1e4]}), 'rope.freq_base'),
  (dict(tokens=TOKENS | {'bos_token_id': 'x'}), 'bos_token_id'),
  (dict(tokens=TOKENS | {'bos_token_id': [1, 2]}), 'bos_token_id'),
  (dict(tokens=TOKENS | {'eos_token_id': float('inf')}), 'eos_token_id'),
  (dict(tokens=TOKENS | {'padding_token_id': 0.5}), 'padding_token_id'),
  (dict(tokens=TOKENS | {'unknown_token_id': 'x'}), 'unknown_token_id'),
  (dict(tokens=TOKENS | {'pre': [1]}), 'pre'),
  (dict(tokens=TOKENS | {'add_bos_token': 'no'}), 'add_bos_token'),
  (dict(tokens=TOKENS | {'tokens': [1] * 11}), 'tokens'),
  (dict(tokens=TOKENS | {'tokens': ['<s>', *'abcdefghi', 'a']}), 'tokens'),
  (dict(tokens=TOKENS | {'types': ['x'] * 11}), 'token_type'),
  (dict(extra={'tokenizer.chat_template': 3}), 'chat_template'),
  (dict(tokens=PIECES | {'unknown_token_id': 99}), 'unknown_token_id'),
  (dict(tokens=PIECES | {'bos_token_id': 99}), 'bos_token_id'),
  (dict(tokens=PIECES | {'scores': ['x'] * 11}), 'scores'),
  (dict(tokens=PIECES | {'scores': [NAN] * 11}), 'scores'),
  (dict(architecture='bert'), 'bert'),
  (dict(sizes={'expert_count': 4}), 'expert_count'),
  (dict(sizes={'attention.head_count_kv': [2, 4]}), 'head_count_kv'),
  (dict(sizes={'rope.dimension_count': 8}), 'rope.dimension_count'),
  (
    dict(sizes={'rope.scaling.type': 'longrope', 'rope.scaling.factor': 2.0}),
    'longrope',
  ),
  (dict(extra={'split.count': 3}), 'parts'),
  (
    dict(raw={'rope_freqs.weight': np.full(8, 3.0, np.float32)}),
    'rope_freqs',
  ),
  (dict(tokens=TOKENS | {'pre': 'mpt'}), 'mpt'),
  (dict(tokens=TOKENS | {'model': 'bert', 'scores': [0.0] * 11}), 'bert'),
  (dict(tokens=TOKENS | {'merges': ['a zz']}), 'a zz'),
  (dict(tokens=TOKENS | {'types': [1, 1]}), 'token_type'),
  (dict(tokens=TOKENS | {'eos_token_id': 99}), '99'),
] + [
  (
    dict(
      tokens=TOKENS
      | {'tokens': [x, *'abcdefghij']}
      | {'bos_token_id': 0, 'add_bos_token': True}
    ),
    'bos_token_id',
  )
  for x in ('<s b>', '<s>:1', '$A')
]


@pytest.mark.parametrize(('changes', 'field'), WRONG)
def test_a_setting_that_cannot_be_is_named(changes, field, tmp_path):
  changes = dict(changes)
  architecture, settings, _ = MODELS['llama_bias']
  path = tmp_path / 'a.gguf'
  gguf_files.write(
    path,
    changes.pop('architecture', architecture),
    sizes=SIZES | settings | changes.pop('sizes', {}),
    tensors={'model.embed_tokens.weight': np.zeros((12, 64), np.float32)},
    **changes,
  )
  with raises(ValueError, f'a.gguf {field}'):
    folder.folder(path)
  assert not list(temporary())


def temporary():
  """Finds what is half-made in the cache."""
  return pathlib.Path(os.environ['XDG_CACHE_HOME']).rglob('tmp*')


def test_a_special_token_of_the_padding_keeps_its_id(tmp_path):
  tokens = TOKENS | {'types': [3] + [1] * 9 + [5], 'eos_token_id': 10}
  path, _, _ = written(tmp_path, 'qwen3', tokens=tokens)
  assert tokenizer.HuggingFace(str(folder.folder(path))).eot == 10


def test_text_that_is_not_utf8_is_refused(tmp_path):
  path, _, _ = written(tmp_path, 'qwen3')
  data = path.read_bytes()
  path.write_bytes(data.replace(b'gpt-2', b'gpt\xff2', 1))
  with raises(ValueError, 'qwen3.F32.gguf'):
    folder.folder(path)


@pytest.mark.parametrize('kind', ['bytes', 'nested'])
def test_a_list_that_does_not_end_is_refused(kind, tmp_path):
  """The package would read it for hours, or to the depth of the stack."""
  name, array = b'x', struct.pack('<I', 9)
  head = struct.pack('<4sIQQQ', b'GGUF', 3, 0, 1, len(name)) + name + array
  tail = {
    'bytes': struct.pack('<IQ', 0, 1 << 62) + b'12345678',
    'nested': struct.pack('<IQ', 9, 1) * 5000,
  }[kind]
  path = tmp_path / 'a.gguf'
  path.write_bytes(head + tail)
  with raises(ValueError, 'a.gguf'):
    file.read(path)


@pytest.mark.parametrize('damage', ['place', 'type'])
def test_a_tensor_of_another_place_is_refused(damage, tmp_path):
  path, _, _ = written(tmp_path, 'qwen3')
  data = bytearray(path.read_bytes())
  name = b'blk.1.ffn_up.weight'
  at = data.index(name) + len(name)  # dimensions, sizes, type, offset
  (n,) = struct.unpack_from('<I', data, at)
  at += 4 + 8 * n
  (offset,) = struct.unpack_from('<Q', data, at + 4)
  if damage == 'place':
    struct.pack_into('<Q', data, at + 4, offset + 32)
  else:
    struct.pack_into('<I', data, at, gguf.GGMLQuantizationType.F16)
  path.write_bytes(data)
  with raises(ValueError, 'qwen3.F32.gguf begin'):
    folder.folder(path)


def test_a_folder_that_lost_files_is_made_again(tmp_path):
  path, _, _ = written(tmp_path, 'qwen3')
  made = folder.folder(path)
  for name in ('config.json', folder.PLACES, 'tokenizer.json'):
    (made / name).unlink()
    again = folder.folder(path)
    assert again == made
    assert (made / name).is_file()
    assert [x.name for x in made.parent.iterdir()] == [made.name]


def test_a_file_that_was_replaced_is_not_read_by_old_places(tmp_path):
  path, _, _ = written(tmp_path, 'qwen3')
  made = folder.folder(path)
  folder.open_tensors(made)
  os.utime(path, ns=(1, 1))
  with raises(ValueError, 'qwen3.F32.gguf'):
    folder.open_tensors(made)


def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch):
  path, _, _ = written(tmp_path, 'qwen3')

  def full(*_):
    raise OSError(28, 'No space left on device')

  monkeypatch.setattr(os, 'replace', full)
  with raises(ValueError, 'No space left XDG_CACHE_HOME'):
    folder.folder(path)
  assert not list(temporary())


def test_a_path_that_is_not_unicode_is_refused(tmp_path):
  path, _, _ = written(tmp_path, 'qwen3')
  other = tmp_path / os.fsdecode(b'\xff.gguf')
  path.rename(other)
  with raises(ValueError, 'path'):
    folder.folder(other)
