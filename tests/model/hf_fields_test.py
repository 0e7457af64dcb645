"""Hostile config.json files: a decoder, or one sentence."""

import json

import pytest

from agentrl.model import hf_config, hf_fields
from tests import checkpoints, errors, hostile

LLAMA = checkpoints.CONFIG | {
  'model_type': 'llama',
  'attention_bias': False,
  'pad_token_id': 0,
  'rope_parameters': {
    'rope_type': 'llama3',
    'rope_theta': 5e5,
    'factor': 8.0,
    'low_freq_factor': 1.0,
    'high_freq_factor': 4.0,
    'original_max_position_embeddings': 64,
  },
}
MIXTURE = checkpoints.CONFIG | {
  'model_type': 'qwen3_moe',
  'moe_intermediate_size': 16,
  'num_experts': 4,
  'num_experts_per_tok': 2,
  'norm_topk_prob': True,
}
WINDOWS = {
  **checkpoints.CONFIG,
  'model_type': 'gemma3_text',
  'head_dim': 8,
  'layer_types': ['sliding_attention', 'full_attention'],
  'sliding_window': 8,
  'query_pre_attn_scalar': 8,
  'final_logit_softcapping': None,
  'rope_parameters': {
    'full_attention': {
      'rope_type': 'yarn',
      'rope_theta': 1e6,
      'factor': 4.0,
      'original_max_position_embeddings': 64,
    },
    'sliding_attention': {'rope_type': 'default', 'rope_theta': 1e4},
  },
}
HUGE = ('9223372036854775807', '1000000000', '"sliding_attention"')


def made(folder, text: str):
  (folder / 'config.json').write_text(text)
  return hf_config.specs(hf_config.read(folder))


@pytest.mark.slow
@pytest.mark.parametrize(
  'config',
  [LLAMA, MIXTURE, WINDOWS],
  ids=lambda x: x['model_type'],
)
def test_every_value_of_every_field_is_read_or_refused(tmp_path, config):
  made(tmp_path, json.dumps(config))
  for place, value, text in hostile.mutations(config, hostile.VALUES + HUGE):
    try:
      made(tmp_path, text)
      why = ''
    except ValueError as error:
      why = str(error)
    assert len(why) < 700, (place, value)
    assert '\n' not in why, (place, value)


@pytest.mark.parametrize('text', hostile.VALUES, ids=lambda x: x[:20])
def test_a_config_that_is_none_is_refused(tmp_path, text):
  with errors.raises(ValueError, 'config.json'):
    made(tmp_path, text)
  with errors.raises(ValueError, 'config.json'):
    made(tmp_path, f'{{"model_type": {text}}}')


@pytest.mark.parametrize(
  ('field', 'value'),
  [
    *(('num_hidden_layers', x) for x in (0, -1, 10**9, 2**63, True, '2')),
    *(('hidden_size', x) for x in (0, -32, 32.0, None)),
    *(('attention_bias', x) for x in ('false', 0, 1, [])),
    *(('rms_norm_eps', x) for x in (0, -1e-6, 'x', True)),
    *(('dtype', x) for x in ('auto', 'int8', 5)),
    *(('pad_token_id', x) for x in (384, -2, 1.0, True)),
    *(('rope_parameters', x) for x in ([], 'x', 5)),
    *(('rope_scaling', x) for x in ([], '', 0, False, 'x')),
    *(('layer_types', x) for x in ('full_attention', [[]], [None, None])),
  ],
)
def test_a_field_out_of_its_range_is_named(tmp_path, field, value):
  with errors.raises(ValueError, field):
    made(tmp_path, json.dumps(LLAMA | {field: value}))


def test_a_rope_without_a_number_is_refused():
  with errors.raises(ValueError, 'rope_theta'):
    hf_fields.check_rope({'rope_type': 'default', 'rope_theta': None})
  hf_fields.check_rope({'full_attention': {'rope_theta': 1e4}})
