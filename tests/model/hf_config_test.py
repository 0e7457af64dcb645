"""Published config.json files, and those that cannot be followed."""

import importlib.util
import json
import math
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh
from agentrl.model import hf_config
from agentrl.nn import rope, transformer
from tests import errors

EVERYWHERE = {
  'attention_dropout': 0.0,
  'initializer_range': 0.02,
  'rms_norm_eps': 1e-6,
  'torch_dtype': 'bfloat16',
  'use_cache': True,
}
QWEN2 = {
  **EVERYWHERE,
  'architectures': ['Qwen2ForCausalLM'],
  'bos_token_id': 151643,
  'eos_token_id': 151645,
  'hidden_act': 'silu',
  'hidden_size': 896,
  'intermediate_size': 4864,
  'max_position_embeddings': 32768,
  'max_window_layers': 21,
  'model_type': 'qwen2',
  'num_attention_heads': 14,
  'num_hidden_layers': 24,
  'num_key_value_heads': 2,
  'rope_theta': 1e6,
  'sliding_window': 32768,
  'tie_word_embeddings': True,
  'transformers_version': '4.43.1',
  'use_sliding_window': False,
  'vocab_size': 151936,
}
QWEN3 = {
  **EVERYWHERE,
  'attention_bias': False,
  'head_dim': 128,
  'hidden_act': 'silu',
  'hidden_size': 1024,
  'intermediate_size': 3072,
  'max_position_embeddings': 40960,
  'model_type': 'qwen3',
  'num_attention_heads': 16,
  'num_hidden_layers': 28,
  'num_key_value_heads': 8,
  'rope_scaling': None,
  'rope_theta': 1e6,
  'tie_word_embeddings': True,
  'vocab_size': 151936,
}
QWEN3_MOE = QWEN3 | {
  'decoder_sparse_step': 1,
  'hidden_size': 2048,
  'intermediate_size': 6144,
  'max_window_layers': 48,
  'mlp_only_layers': [],
  'model_type': 'qwen3_moe',
  'moe_intermediate_size': 768,
  'norm_topk_prob': True,
  'num_attention_heads': 32,
  'num_experts': 128,
  'num_experts_per_tok': 8,
  'num_hidden_layers': 48,
  'num_key_value_heads': 4,
  'output_router_logits': False,
  'router_aux_loss_coef': 0.001,
  'sliding_window': None,
  'tie_word_embeddings': False,
  'use_sliding_window': False,
}
LLAMA = {
  **EVERYWHERE,
  'attention_bias': False,
  'head_dim': 64,
  'hidden_act': 'silu',
  'hidden_size': 2048,
  'intermediate_size': 8192,
  'max_position_embeddings': 131072,
  'mlp_bias': False,
  'model_type': 'llama',
  'num_attention_heads': 32,
  'num_hidden_layers': 16,
  'num_key_value_heads': 8,
  'pretraining_tp': 1,
  'rms_norm_eps': 1e-5,
  'rope_scaling': {
    'factor': 32.0,
    'high_freq_factor': 4.0,
    'low_freq_factor': 1.0,
    'original_max_position_embeddings': 8192,
    'rope_type': 'llama3',
  },
  'rope_theta': 5e5,
  'tie_word_embeddings': True,
  'vocab_size': 128256,
}
SMOLLM2 = LLAMA | {
  'head_dim': None,
  'hidden_size': 576,
  'intermediate_size': 1536,
  'is_llama_config': True,
  'max_position_embeddings': 8192,
  'num_attention_heads': 9,
  'num_hidden_layers': 30,
  'num_key_value_heads': 3,
  'rope_interleaved': False,
  'rope_scaling': None,
  'rope_theta': 100_000,
  'transformers.js_config': {'dtype': 'q4'},
  'vocab_size': 49152,
}
GEMMA2 = {
  **EVERYWHERE,
  'attention_bias': False,
  'attn_logit_softcapping': 50.0,
  'cache_implementation': 'hybrid',
  'final_logit_softcapping': 30.0,
  'head_dim': 256,
  'hidden_act': 'gelu_pytorch_tanh',
  'hidden_activation': 'gelu_pytorch_tanh',
  'hidden_size': 2304,
  'intermediate_size': 9216,
  'max_position_embeddings': 8192,
  'model_type': 'gemma2',
  'num_attention_heads': 8,
  'num_hidden_layers': 26,
  'num_key_value_heads': 4,
  'pad_token_id': 0,
  'query_pre_attn_scalar': 256,
  'rope_theta': 1e4,
  'sliding_window': 4096,
  'vocab_size': 256000,
}
GEMMA3 = {
  **EVERYWHERE,
  'attn_logit_softcapping': None,
  'final_logit_softcapping': None,
  'head_dim': 256,
  'hidden_activation': 'gelu_pytorch_tanh',
  'hidden_size': 1152,
  'intermediate_size': 6912,
  'max_position_embeddings': 32768,
  'model_type': 'gemma3_text',
  'num_attention_heads': 4,
  'num_hidden_layers': 26,
  'num_key_value_heads': 1,
  'pad_token_id': 0,
  'query_pre_attn_scalar': 256,
  'rope_local_base_freq': 1e4,
  'rope_scaling': None,
  'rope_theta': 1e6,
  'sliding_window': 512,
  'sliding_window_pattern': 6,
  'vocab_size': 262144,
}
# As published with images: most of it is left to the family's defaults.
GEMMA3_IMAGES = {
  'architectures': ['Gemma3ForConditionalGeneration'],
  'model_type': 'gemma3',
  'text_config': {
    'hidden_size': 2560,
    'intermediate_size': 10240,
    'model_type': 'gemma3_text',
    'num_hidden_layers': 34,
    'rope_scaling': {'factor': 8.0, 'rope_type': 'linear'},
    'sliding_window': 1024,
  },
  'vision_config': {'model_type': 'siglip_vision_model'},
}


@pytest.mark.parametrize(
  ('config', 'count'),
  [
    (QWEN2, 494_032_768),
    (QWEN3, 596_049_920),
    (QWEN3_MOE, 30_532_122_624),
    (LLAMA, 1_235_814_400),
    (GEMMA2, 2_614_341_888),
    (GEMMA3, 999_885_952),
    (SMOLLM2, 134_515_008),
  ],
  ids=lambda x: x['model_type'] if isinstance(x, dict) else '',
)
def test_as_many_parameters_as_published(config, count):
  assert mesh.count(transformer.specs(hf_config.shape(config))) == count


def test_what_makes_families_differ():
  llama, gemma2 = hf_config.shape(LLAMA), hf_config.shape(GEMMA2)
  assert llama.scaling == rope.Llama3(32.0, 1.0, 4.0, 8192)
  assert gemma2.windows == (4096, 0) * 13
  assert (gemma2.score_cap, gemma2.logit_cap) == (50.0, 30.0)
  assert gemma2.embed_scale == 48.0
  assert gemma2.period == 2
  gemma3 = hf_config.shape(GEMMA3)
  assert gemma3.windows == ((512,) * 5 + (0,)) * 4 + (512,) * 2
  assert (gemma3.theta, gemma3.local_theta) == (1e6, 1e4)
  assert (gemma3.score_cap, gemma3.logit_cap) == (0.0, 0.0)
  moe = hf_config.shape(QWEN3_MOE)
  assert (moe.experts, moe.top_k, moe.unit_top_k) == (128, 8, True)
  qwen2 = hf_config.shape(QWEN2)
  assert (qwen2.bias, qwen2.out_bias, qwen2.windows) == (True, False, ())
  assert qwen2.theta == 1e6


def test_windows_of_the_last_layers():
  config = QWEN2 | {'use_sliding_window': True, 'sliding_window': 100}
  assert hf_config.shape(config).windows == (0,) * 21 + (100,) * 3


def test_yarn_has_the_amplitude_of_its_paper():
  scaling = {
    'rope_type': 'yarn',
    'factor': 4.0,
    'original_max_position_embeddings': 32768,
  }
  got = hf_config.shape(QWEN3 | {'rope_scaling': scaling}).scaling
  assert got == rope.Yarn(4.0, 32768, 0.1 * math.log(4.0) + 1.0)


def test_the_text_model_of_one_that_reads_images(tmp_path):
  (tmp_path / 'config.json').write_text(json.dumps(GEMMA3_IMAGES))
  shape = hf_config.shape(hf_config.read(tmp_path))
  assert shape.scaling == rope.Linear(8.0)
  assert (shape.heads, shape.kv_heads, shape.head_dim) == (8, 4, 256)
  assert shape.windows == ((1024,) * 5 + (0,)) * 5 + (1024,) * 4


@pytest.mark.parametrize(
  ('config', 'words'),
  [
    ({'model_type': 'mamba'}, 'model_type mamba config.json'),
    ({}, 'model_type None'),
    (QWEN2 | {'logit_scale': 3.0}, 'logit_scale 3.0'),
    (
      QWEN2 | {'quantization_config': {'bits': 4}},
      'quantization_config',
    ),
    (QWEN3_MOE | {'num_experts': 0}, 'num_experts 0'),
    (
      GEMMA3 | {'rope_parameters': {'factor': 8.0}},
      'factor 8.0 full_attention',
    ),
    (QWEN2 | {'use_mrope': True}, 'use_mrope True'),
    (LLAMA | {'attention_dropout': 0.1}, 'attention_dropout 0.1'),
    (QWEN3_MOE | {'mlp_only_layers': [2]}, 'mlp_only_layers 2'),
    (GEMMA3 | {'attn_logit_softcapping': 5.0}, 'attn_logit_softcapping 5.0'),
    (LLAMA | {'hidden_act': 'relu'}, 'relu'),
    (
      LLAMA | {'rope_scaling': {'rope_type': 'dynamic', 'factor': 2.0}},
      'rope_type dynamic config.json',
    ),
    (
      LLAMA | {'rope_scaling': {'rope_type': 'llama3', 'factor': 2.0}},
      'low_freq_factor',
    ),
    (
      LLAMA
      | {'rope_scaling': {'rope_type': 'linear', 'factor': 2.0, 'odd': 1}},
      'odd 1',
    ),
    (
      QWEN3 | {'layer_types': ['sliding_attention'] * 28},
      'sliding_window',
    ),
    (
      QWEN3 | {'layer_types': ['linear_attention'] * 28},
      'linear_attention',
    ),
  ],
)
def test_what_is_not_supported_is_said(config, words):
  with errors.raises(ValueError, words):
    hf_config.shape(config)


# Of each family, fields of others that transformers does not read for it.
ELSEWHERE = [
  (LLAMA, {'sliding_window': 4}),
  (LLAMA, {'layer_types': ['sliding_attention'] * 16, 'sliding_window': 4}),
  (LLAMA, {'layer_types': ['full_attention'] * 16}),
  (LLAMA, {'hidden_activation': 'gelu'}),
  (QWEN2, {'hidden_activation': 'gelu'}),
  (QWEN2, {'attention_bias': True}),
  (QWEN2, {'mlp_bias': True}),
  (QWEN3, {'hidden_activation': 'gelu'}),
  (QWEN3, {'mlp_bias': True}),
  (QWEN3_MOE, {'layer_types': ['full_attention'] * 48}),
  (QWEN3_MOE, {'mlp_bias': True}),
  (GEMMA2, {'mlp_bias': True}),
  (GEMMA3, {'mlp_bias': True}),
]


@pytest.mark.parametrize(('config', 'changed'), ELSEWHERE)
def test_fields_of_another_family_are_not_obeyed(config, changed):
  with errors.raises(ValueError, 'model_type'):
    hf_config.shape(config | changed)
  nothing = dict.fromkeys(changed)
  assert hf_config.shape(config | nothing) == hf_config.shape(config)


def test_a_hidden_act_of_gemma_never_held():
  config = GEMMA2 | {'hidden_act': 'relu'}
  assert hf_config.shape(config) == hf_config.shape(GEMMA2)


@pytest.mark.parametrize('kind', hf_config.FAMILIES)
def test_what_is_read_is_what_transformers_reads(kind):
  """Its own code of the family names a field exactly where ours reads it."""
  (package,) = importlib.util.find_spec(
    'transformers'
  ).submodule_search_locations
  folder = kind.removesuffix('_text')
  file = f'models/{folder}/modeling_{folder}.py'
  code = (pathlib.Path(package) / file).read_text(encoding='utf-8')
  theirs = set(re.findall(r'config\.(\w+)', code))
  theirs |= set(re.findall(r'getattr\(config, "(\w+)"', code))
  assert theirs & hf_config.READ == set(hf_config.FAMILIES[kind].reads)


def test_a_config_stays_as_it_is():
  """transformers writes other fields into what rope_scaling holds."""
  before = json.dumps(LLAMA)
  with errors.raises(ValueError, 'partial_rotary_factor 0.5'):
    hf_config.shape(LLAMA | {'partial_rotary_factor': 0.5})
  assert json.dumps(LLAMA) == before


def test_positions_by_kinds_of_layers_are_gemmas():
  rope = {'rope_type': 'default', 'rope_theta': 1e4}
  nested = {'full_attention': rope, 'sliding_attention': rope}
  config = {x: y for x, y in QWEN2.items() if x != 'rope_theta'}
  with pytest.raises(ValueError):
    hf_config.shape(config | {'rope_parameters': nested})


def test_quantized_text_models_are_named(tmp_path):
  images = GEMMA3_IMAGES | {'quantization_config': {'quant_method': 'awq'}}
  (tmp_path / 'config.json').write_text(json.dumps(images))
  with errors.raises(ValueError, 'awq'):
    hf_config.shape(hf_config.read(tmp_path))


def test_a_directory_without_a_config(tmp_path):
  with errors.raises(ValueError, 'config.json'):
    hf_config.read(tmp_path)
  (tmp_path / 'config.json').write_text('{')
  with errors.raises(ValueError, 'JSON'):
    hf_config.read(tmp_path)


def test_parameters_begin_as_the_family_begins_them():
  config = GEMMA2 | {
    'vocab_size': 200,
    'hidden_size': 64,
    'num_hidden_layers': 2,
    'intermediate_size': 96,
    'head_dim': 16,
    'initializer_range': 0.05,
    'pad_token_id': 3,
  }
  params = mesh.init(hf_config.specs(config), jax.random.key(0))
  layers = params['layers']
  for name in ('q', 'k', 'v', 'o', 'gate', 'up', 'down'):
    np.testing.assert_allclose(jnp.std(layers[name]), 0.05, rtol=0.1)
  for name in ('attn_norm', 'mlp_norm', 'attn_post_norm', 'mlp_post_norm'):
    assert not np.any(layers[name])  # the family adds 1
  assert not np.any(params['embed'][3])
  assert np.all(jnp.std(params['embed'][4:], axis=1) > 0.02)
