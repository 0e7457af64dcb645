"""Settings of a GGUF file as a Hugging Face config.json.

Every setting of the architecture is read or refused, so that none that changes
what the model computes is ignored.
"""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from agentrl.domain import COUNT, NOT_NEGATIVE, POSITIVE, Real, Text, Whole
from agentrl.model.gguf import file as gguf_file
from agentrl.nn import rope

# Architecture of GGUF -> model_type. Mistral's is Llama's.
FAMILIES = {
  'llama': 'llama',
  'qwen2': 'qwen2',
  'qwen3': 'qwen3',
  'gemma3': 'gemma3_text',
}
_REQUIRED = {
  'context_length': 'max_position_embeddings',
  'block_count': 'num_hidden_layers',
  'feed_forward_length': 'intermediate_size',
  'embedding_length': 'hidden_size',
  'attention.head_count': 'num_attention_heads',
  'attention.layer_norm_rms_epsilon': 'rms_norm_eps',
}
_DOMAINS = {
  **dict.fromkeys(_REQUIRED, COUNT),
  'attention.layer_norm_rms_epsilon': POSITIVE,
  'attention.head_count_kv': COUNT,
  'attention.key_length': COUNT,
  'attention.value_length': COUNT,
  'attention.sliding_window': COUNT,
  'rope.dimension_count': COUNT,
  'rope.freq_base': Real(1),
  'rope.freq_base_swa': Real(1),
  'rope.scaling.type': Text(),
  'rope.scaling.factor': NOT_NEGATIVE,
  'rope.scaling.original_context_length': COUNT,
  'final_logit_softcapping': POSITIVE,
}
# May be a list of one value for each layer.
_PER_LAYER = (*_REQUIRED, 'attention.head_count_kv')
# Counted by the tensors themselves, or without effect on the maths.
_IDLE = ('vocab_size', 'rope.scaling.finetuned')
_SPECIALS = {
  'bos_token_id': 'bos_token_id',
  'eos_token_id': 'eos_token_id',
  'padding_token_id': 'pad_token_id',
}
EMBED, HEAD, ROPE = 'token_embd.weight', 'output.weight', 'rope_freqs.weight'
# Gemma 3: every sixth layer reads all tokens; the others turn by this base.
_GLOBAL, _LOCAL_THETA = 6, 10_000.0
_LARGEST = 62  # layers of Gemma 3's 27B, whose queries have another scale


def config(header: gguf_file.Header) -> dict[str, Any]:
  """Converts the settings of a GGUF file to a config.json.

  Raises:
    ValueError: an architecture or setting is missing or not supported.
  """
  architecture = header.settings.get('general.architecture')
  if architecture not in FAMILIES:
    raise ValueError(
      f'{header.path}: general.architecture must be one of {tuple(FAMILIES)},'
      f' got {architecture!r}'
    )
  prefix = f'{architecture}.'
  _check(header, prefix)
  own = {
    name.removeprefix(prefix): value
    for name, value in header.settings.items()
    if name.startswith(prefix) and not name.endswith(_IDLE)
  }
  out = _sizes(header, own)
  out |= {
    'model_type': FAMILIES[architecture],
    'vocab_size': _stored(header, EMBED).shape[0],
    'tie_word_embeddings': HEAD not in header.tensors,
    'dtype': 'float32',
    'rope_parameters': _rope(header, own, out['head_dim']),
  }
  out |= {
    theirs: header.settings[f'tokenizer.ggml.{ours}']
    for ours, theirs in _SPECIALS.items()
    if f'tokenizer.ggml.{ours}' in header.settings
  }
  if architecture == 'gemma3':
    out |= _gemma3(header, own, out)
  elif architecture == 'llama':
    out['attention_bias'] = 'blk.0.attn_q.bias' in header.tensors
    out['mlp_bias'] = 'blk.0.ffn_up.bias' in header.tensors
  if own:
    name, value = next(iter(own.items()))
    raise ValueError(
      f'{header.path}: {prefix}{name}={str(value)[:60]} is not supported;'
      ' choose a file of another model'
    )
  return out


def _check(header: gguf_file.Header, prefix: str) -> None:
  """Raises ValueError for a setting whose value cannot be."""
  domains = {f'{prefix}{name}': x for name, x in _DOMAINS.items()}
  domains |= {f'tokenizer.ggml.{name}': Whole(0) for name in _SPECIALS}
  for name in domains.keys() & header.settings.keys():
    value = header.settings[name]
    many = isinstance(value, list) and name.removeprefix(prefix) in _PER_LAYER
    for x in value if many else [value]:
      domains[name].check(f'{header.path}: {name}', x)


def _stored(header: gguf_file.Header, name: str) -> gguf_file.StoredTensor:
  if name not in header.tensors:
    raise ValueError(
      f'{header.path} lacks the tensor {name}; it holds no whole language model'
    )
  return header.tensors[name]


def _sizes(header: gguf_file.Header, own: dict[str, Any]) -> dict[str, Any]:
  """Takes the sizes out of the architecture's own settings."""
  out = {}
  for ours, theirs in _REQUIRED.items():
    if ours not in own:
      raise ValueError(f'{header.path} lacks the setting {ours} of its model')
    out[theirs] = _one(header, ours, own.pop(ours))
  heads, width = out['num_attention_heads'], out['hidden_size']
  groups = own.pop('attention.head_count_kv', heads)
  out['num_key_value_heads'] = _one(header, 'attention.head_count_kv', groups)
  if heads % out['num_key_value_heads']:
    raise ValueError(
      f'{header.path}: attention.head_count must be a multiple of'
      f' attention.head_count_kv, {out["num_key_value_heads"]}, got {heads}'
    )
  size = own.pop('attention.key_length', None)
  turned = own.pop('rope.dimension_count', None)
  out['head_dim'] = size or turned or width // heads
  for name, other in {
    'attention.value_length': own.pop('attention.value_length', None),
    'rope.dimension_count': turned,
  }.items():
    if other not in (None, out['head_dim']):
      raise ValueError(
        f'{header.path}: {name} must be the size of a head,'
        f' {out["head_dim"]}, got {other}'
      )
  return out


def _one(header: gguf_file.Header, name: str, value: Any) -> Any:
  """Returns a number, or the one that all layers share."""
  values = {*value} if isinstance(value, list) else {value}
  if len(values) != 1:
    raise ValueError(
      f'{header.path}: {name} must be the same in all layers, got'
      f' {sorted(values)}'
    )
  (only,) = values
  return _shortest(only) if isinstance(only, float) else only


def _shortest(x: float) -> float:
  """Returns the shortest decimal of a float32: 1e-5, and not 9.99...e-6."""
  return float(str(np.float32(x)))


def _rope(
  header: gguf_file.Header, own: dict[str, Any], head_dim: int
) -> dict[str, Any]:
  """Takes rotary positions out of the architecture's own settings."""
  theta = _shortest(own.pop('rope.freq_base', 10_000.0))
  kind = own.pop('rope.scaling.type', 'none')
  if ROPE in header.tensors:
    if kind not in ('none', 'llama3'):
      raise ValueError(
        f'{header.path} must have rope.scaling.type or the tensor {ROPE}, got'
        ' both'
      )
    return _llama3(header, theta, head_dim)
  factor = own.pop('rope.scaling.factor', 1.0)
  context = own.pop('rope.scaling.original_context_length', None)
  if kind == 'none' or factor == 1.0:
    return {'rope_type': 'default', 'rope_theta': theta}
  if kind == 'linear':
    scaling: dict[str, Any] = {}
  elif kind == 'yarn' and context:
    scaling = {'original_max_position_embeddings': context}
  else:
    raise ValueError(
      f'{header.path}: rope.scaling.type must be none, linear or yarn, the'
      f' latter with original_context_length, got {kind!r}'
    )
  return {'rope_type': kind, 'rope_theta': theta, 'factor': factor} | scaling


def _llama3(
  header: gguf_file.Header, theta: float, head_dim: int
) -> dict[str, Any]:
  """Returns the settings behind a tensor of factors, as Llama 3.1 to 3.3.

  A file has the factors [head_dim / 2] by which frequencies are divided, and
  not the four numbers that they were computed from. Llama's are 1, 4 and 8192
  beside the largest factor; whatever is not explained by these is refused.
  """
  stored = header.tensors[ROPE]
  factors = gguf_file.rows(header.path, stored, slice(None))[0]
  scaling = rope.Llama3(
    factor=float(factors.max()), low=1.0, high=4.0, context=8192
  )
  plain = theta ** -(np.arange(0, head_dim, 2, dtype=np.float32) / head_dim)
  stretched, _ = scaling(jnp.asarray(plain), theta)
  if factors.shape != plain.shape or not np.allclose(
    plain / factors, stretched, rtol=1e-4
  ):
    raise ValueError(
      f'{header.path}: {ROPE} must hold the factors of Llama 3.1 to 3.3; choose'
      ' a file of another model'
    )
  return {
    'rope_type': 'llama3',
    'rope_theta': theta,
    'factor': scaling.factor,
    'low_freq_factor': scaling.low,
    'high_freq_factor': scaling.high,
    'original_max_position_embeddings': scaling.context,
  }


def _gemma3(
  header: gguf_file.Header, own: dict[str, Any], out: Mapping[str, Any]
) -> dict[str, Any]:
  """Takes what only Gemma 3 has out of its own settings."""
  layers, heads = out['num_hidden_layers'], out['num_attention_heads']
  scale = out['hidden_size'] // heads if layers == _LARGEST else out['head_dim']
  local = own.pop('rope.freq_base_swa', _LOCAL_THETA)
  if 'attention.sliding_window' not in own:
    raise ValueError(
      f'{header.path} lacks the setting attention.sliding_window of its model'
    )
  kinds = [
    'full_attention' if i % _GLOBAL == 0 else 'sliding_attention'
    for i in range(1, layers + 1)
  ]
  pattern = own.pop('attention.sliding_window_pattern', _GLOBAL)
  if pattern not in (_GLOBAL, [x == 'sliding_attention' for x in kinds]):
    raise ValueError(
      f'{header.path}: attention.sliding_window_pattern must be {_GLOBAL}, got'
      f' {str(pattern)[:60]}'
    )
  return {
    'query_pre_attn_scalar': scale,
    'hidden_activation': 'gelu_pytorch_tanh',
    'final_logit_softcapping': own.pop('final_logit_softcapping', None),
    'sliding_window': own.pop('attention.sliding_window'),
    'layer_types': kinds,
    'rope_parameters': {
      'full_attention': out['rope_parameters'],
      'sliding_attention': {
        'rope_type': 'default',
        'rope_theta': _shortest(local),
      },
    },
  }
