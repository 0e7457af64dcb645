"""Weights as files of a version: the same numbers, or a clear refusal."""

import dataclasses

import jax
import numpy as np
import pytest
import safetensors.numpy as tensors

from agentrl import mesh
from agentrl.model import published
from agentrl.nn import lora, transformer
from tests import errors

SHAPE = transformer.DecoderConfig(
  vocab=32, width=8, layers=2, heads=2, kv_heads=1, head_dim=4, mlp=8
)


def params(shape=SHAPE):
  return mesh.init(transformer.specs(shape), jax.random.key(0))


def test_a_model_of_our_own_comes_back_bit_for_bit(tmp_path):
  mine = params()
  beside = np.zeros(3)  # such as a value head
  published.write(tmp_path, SHAPE, {**mine, 'value': beside})
  jax.tree.map(
    np.testing.assert_array_equal, published.read(tmp_path, SHAPE), mine
  )


def test_an_adapter_is_merged_or_apart(tmp_path):
  c = lora.Lora(2, 4.0, 'q|v')
  mine = params()
  specs = lora.specs(c, transformer.specs(SHAPE)['layers'])
  adapter = jax.tree.map(lambda x: x + 0.1, mesh.init(specs, jax.random.key(1)))
  attached = lora.attach(c, mine, adapter)
  apart = published.adapter_of(attached)
  assert sorted(apart) == ['q', 'v']
  jax.tree.map(np.testing.assert_array_equal, apart, adapter)
  published.write(tmp_path, SHAPE, attached)
  jax.tree.map(
    np.testing.assert_array_equal,
    published.read(tmp_path, SHAPE),
    lora.merge(attached),
  )


def test_weights_of_another_model_are_refused(tmp_path):
  published.write(tmp_path, SHAPE, params())
  changes = (
    (dict(mlp=16), 'down (2, 16, 8) (2, 8, 8)'),
    (dict(qk_norm=True), 'k_norm (2, 4) None'),
  )
  for change, names in changes:
    other = dataclasses.replace(SHAPE, **change)
    with errors.raises(ValueError, names):
      published.read(tmp_path, other)


@pytest.mark.parametrize(
  'harm',
  [
    lambda x: np.full_like(x, np.nan),
    lambda x: np.where(np.arange(x.shape[-1]) == 0, np.inf, x),
    lambda x: x.astype(np.int8),
    lambda x: x.astype(np.float16),
    lambda x: x[..., :-1],
  ],
)
def test_numbers_that_are_no_weights_are_refused(tmp_path, harm):
  published.write(tmp_path, SHAPE, params())
  file = tmp_path / published.ARRAYS
  arrays = tensors.load_file(file)
  name = sorted(arrays)[0]
  arrays[name] = np.ascontiguousarray(harm(arrays[name]))
  tensors.save_file(arrays, file)
  with pytest.raises(ValueError):
    published.read(tmp_path, SHAPE)


@pytest.mark.parametrize('left', [0, 4, 20, -1])
def test_a_torn_file_is_refused(tmp_path, left):
  published.write(tmp_path, SHAPE, params())
  file = tmp_path / published.ARRAYS
  file.write_bytes(file.read_bytes()[:left])
  with pytest.raises(ValueError):
    published.read(tmp_path, SHAPE)
