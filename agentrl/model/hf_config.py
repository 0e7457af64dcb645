"""Hugging Face config.json as a DecoderConfig, by model family.

Llama 3, Mistral, Qwen2 and 2.5, Qwen3 dense and mixture-of-experts, Gemma 2 and
3 (text). A family is data: the mapping of its fields, its fixed settings, and
the fields that must have their usual value. Any other field is an error, so
that nothing in a checkpoint is ignored silently.
"""

import copy
import math
import os
import pathlib
from typing import Any, NamedTuple

from agentrl.model import hf_fields
from agentrl.nn import rope as rotary
from agentrl.nn import transformer
from agentrl.runtime import text_files

Config = dict[str, Any]  # of config.json, of the text model alone


class HFFamily(NamedTuple):
  """Mapping of a family's config.json to DecoderConfig."""

  architecture: str  # the class of transformers
  fields: dict[str, str]  # its name of a number -> that of DecoderConfig
  always: Config  # fields of DecoderConfig
  usual: Config  # its name -> the one value that is supported
  # Read by name below, of those that not every family reads.
  reads: tuple[str, ...]
  # May hold anything: without effect on what the model computes.
  other: tuple[str, ...]
  scaled: bool = False  # embeddings are multiplied with sqrt(width)
  two_ropes: bool = False  # layers with a window have positions of their own


_EVERYONE = {
  'vocab_size': 'vocab',
  'hidden_size': 'width',
  'num_hidden_layers': 'layers',
  'num_attention_heads': 'heads',
  'num_key_value_heads': 'kv_heads',
  'rms_norm_eps': 'eps',
  'tie_word_embeddings': 'tied',
  'initializer_range': 'init_std',
}
_DENSE = _EVERYONE | {'intermediate_size': 'mlp'}
_USUAL = {'attention_dropout': 0.0, 'use_mrope': False}
_QWEN = ('use_sliding_window', 'max_window_layers')
_WINDOWS = ('sliding_window', 'layer_types')
_GEMMA = HFFamily(
  architecture='Gemma2ForCausalLM',
  fields=_DENSE
  | {
    'query_pre_attn_scalar': 'query_size',
    'final_logit_softcapping': 'logit_cap',
  },
  always={'norm_offset': 1.0, 'post_norm': True},
  scaled=True,
  usual=_USUAL | {'use_bidirectional_attention': False},
  reads=('hidden_activation', 'attention_bias', *_WINDOWS),
  # Old configs carry a hidden_act that never held.
  other=('sliding_window_pattern', '_sliding_window_pattern', 'hidden_act'),
)

FAMILIES: dict[str, HFFamily] = {
  'llama': HFFamily(
    architecture='LlamaForCausalLM',
    fields=_DENSE,
    always={},
    usual=_USUAL | {'rope_interleaved': False},
    reads=('hidden_act', 'attention_bias', 'mlp_bias'),
    # The last two stand in SmolLM2.
    other=('pretraining_tp', 'is_llama_config', 'transformers.js_config'),
  ),
  'mistral': HFFamily(
    architecture='MistralForCausalLM',
    fields=_DENSE,
    always={},
    usual=_USUAL,
    reads=('hidden_act', 'sliding_window'),
    other=(),
  ),
  'qwen2': HFFamily(
    architecture='Qwen2ForCausalLM',
    fields=_DENSE,
    always={'bias': True},
    usual=_USUAL,
    reads=('hidden_act', *_WINDOWS),
    other=_QWEN,
  ),
  'qwen3': HFFamily(
    architecture='Qwen3ForCausalLM',
    fields=_DENSE,
    always={'qk_norm': True},
    usual=_USUAL,
    reads=('hidden_act', 'attention_bias', *_WINDOWS),
    other=_QWEN,
  ),
  'qwen3_moe': HFFamily(
    architecture='Qwen3MoeForCausalLM',
    fields=_EVERYONE
    | {
      'moe_intermediate_size': 'mlp',
      'num_local_experts': 'experts',
      'num_experts_per_tok': 'top_k',
      'norm_topk_prob': 'unit_top_k',
    },
    always={'qk_norm': True},
    usual=_USUAL | {'decoder_sparse_step': 1, 'mlp_only_layers': []},
    reads=('hidden_act', 'attention_bias', 'sliding_window'),
    other=(
      *_QWEN,
      'intermediate_size',
      'output_router_logits',
      'router_aux_loss_coef',
    ),
  ),
  'gemma2': _GEMMA._replace(
    fields=_GEMMA.fields | {'attn_logit_softcapping': 'score_cap'}
  ),
  'gemma3_text': _GEMMA._replace(
    architecture='Gemma3ForCausalLM',
    always=_GEMMA.always | {'qk_norm': True},
    usual=_GEMMA.usual | {'attn_logit_softcapping': None},
    two_ropes=True,
  ),
}

# Read by name below by one family or another.
READ = {name for family in FAMILIES.values() for name in family.reads}
# Read by name below, or common to all models and without effect on the maths.
# fmt: off
_OTHER = {
  'model_type', 'head_dim', 'rope_parameters', 'max_position_embeddings',
  'use_cache', 'architectures', 'dtype', 'transformers_version',
  '_name_or_path', 'pad_token_id', 'bos_token_id', 'eos_token_id',
  'cache_implementation', 'output_hidden_states', 'output_attentions',
  'return_dict', 'chunk_size_feed_forward', 'is_encoder_decoder',
  'problem_type', 'id2label', 'label2id',
}
# fmt: on
_ACTIVATIONS = {
  'silu': 'silu',
  'gelu': 'gelu',
  'gelu_pytorch_tanh': 'gelu_tanh',
}


def read(directory: str | os.PathLike) -> Config:
  """Reads the config.json of a directory, or its text model's section.

  quantization_config is outside that section.

  Raises: ValueError if it is missing or unreadable.
  """
  folder = pathlib.Path(directory)
  file = folder / 'config.json'
  if not file.exists():
    raise ValueError(
      f'model.path={str(directory)!r} must hold a config.json, as written by'
      ' `save_pretrained`'
    )
  for other in folder.iterdir():
    if other.exists() and not other.is_dir():
      text_files.regular(other)  # a pipe would be waited for by its reader
  try:
    config = text_files.read_json(file)
  except ValueError as e:
    raise ValueError(f'{e}; download it again') from e
  text = config.get('text_config', config) if isinstance(config, dict) else None
  if not isinstance(text, dict):
    raise ValueError(
      f'{file} and its text_config must be objects, got {config!r:.60};'
      ' download it again'
    )
  outer = {x: config[x] for x in ('quantization_config',) if x in config}
  return text | outer


def shape(config: Config) -> transformer.DecoderConfig:
  """Converts a config.json to a DecoderConfig.

  Raises: ValueError for an architecture or a field that is not supported.
  """
  kind = config.get('model_type')
  if not isinstance(kind, str) or kind not in FAMILIES:
    raise ValueError(
      f'model_type of config.json must be one of {tuple(FAMILIES)}, got'
      f' {kind!r:.60}'
    )
  family = FAMILIES[kind]
  hf_fields.check(family.fields, config)  # before anything is made of its size
  full = _complete(config)
  _check(family, full)
  hf_fields.check(family.fields, full, whole=True)
  full = {x: y for x, y in full.items() if x not in READ - {*family.reads}}
  width, bias = full['hidden_size'], bool(full.get('attention_bias'))
  biases = {'bias': bias, 'out_bias': bias}  # Qwen2's own is in `always`
  biases['mlp_bias'] = bool(full.get('mlp_bias'))
  sizes: Config = {
    ours: 0.0 if full[theirs] is None else full[theirs]
    for theirs, ours in family.fields.items()
  }
  return transformer.DecoderConfig(
    **sizes,
    head_dim=full.get('head_dim') or width // full['num_attention_heads'],
    activation=_activation(full),
    windows=_windows(full),
    embed_scale=math.sqrt(width) if family.scaled else 1.0,
    **(_positions(full, family) | biases | family.always),
  )


def specs(config: Config) -> dict:
  """Declares the decoder's parameters, initialised as in the family.

  Matrices have the standard deviation `initializer_range`; norms start at one,
  biases and the embedding of the padding token at zero.
  """
  decoder = shape(config)
  pad = _complete(config)['pad_token_id']
  tree = transformer.specs(decoder)
  if pad is None:
    return tree
  drawn = tree['embed'].init

  def init(key, shape):
    return drawn(key, shape).at[pad].set(0.0)

  return tree | {'embed': tree['embed']._replace(init=init)}


def _complete(config: Config) -> Config:
  """Fills in the family's defaults and renames old fields."""
  import transformers  # slow to import

  config = copy.deepcopy(config)  # which transformers writes into
  try:
    return transformers.AutoConfig.for_model(**config).to_dict()
  except Exception as e:  # it has many kinds of them
    words = ' '.join(str(e).split())[:300]
    raise ValueError(f'config.json cannot be read: {words}') from e


def _check(family: HFFamily, full: Config) -> None:
  """Raises ValueError for an unsupported field."""
  kind = full['model_type']
  if quantized := full.get('quantization_config'):
    raise ValueError(
      'weights must be floating point, got'
      f' quantization_config={str(quantized)[:60]}... in config.json; use the'
      ' original checkpoint, or save it dequantized'
    )
  fields = _OTHER | {*family.fields, *family.usual, *family.other} | READ
  for name, value in full.items():
    if name not in fields and value is not None:
      raise ValueError(
        f'{name}={value!r} of config.json is unknown for model_type={kind!r};'
        ' remove it if it does not change what the model computes'
      )
    if name in READ - {*family.reads, *family.other} and value:
      raise ValueError(
        f'{name}={value!r} of config.json has no effect on model_type={kind!r}'
        ' in transformers but may elsewhere; remove it to match transformers'
      )
    usual = family.usual.get(name, value)
    if value != usual and (value or usual):
      raise ValueError(
        f'{name} of config.json must be {usual!r} for model_type={kind!r}, got'
        f' {value!r}'
      )
    if family.fields.get(name) == 'experts' and not value:
      raise ValueError(
        f'num_experts of config.json must be above 0 for model_type={kind!r},'
        f' got {value!r}: dense layers are not supported'
      )


def _activation(full: Config) -> str:
  name = full.get('hidden_activation', full.get('hidden_act'))
  if name not in _ACTIVATIONS:
    raise ValueError(
      f'activation of config.json must be one of {tuple(_ACTIVATIONS)}, got'
      f' {name!r}'
    )
  return _ACTIVATIONS[name]


def _windows(full: Config) -> tuple[int, ...]:
  """Returns the window of each layer; () if all are unlimited."""
  window, count = full.get('sliding_window') or 0, full['num_hidden_layers']
  # Without a list every layer is alike.
  kinds = full.get('layer_types') or (
    ['sliding_attention'] * count if window else []
  )
  lengths = {'sliding_attention': window, 'full_attention': 0}
  for kind in kinds:
    if kind not in lengths:
      raise ValueError(
        f'layer_types of config.json must be among {tuple(lengths)}, got'
        f' {kind!r}'
      )
  if 'sliding_attention' in kinds and not window:
    raise ValueError(
      'sliding_window of config.json must be set for layer_types with'
      ' sliding_attention'
    )
  windows = tuple(lengths[kind] for kind in kinds)
  return windows if any(windows) else ()


def _positions(full: Config, family: HFFamily) -> Config:
  """Returns the rotary fields of DecoderConfig."""
  rope = full['rope_parameters']
  hf_fields.check_rope(rope)
  if not family.two_ropes:
    if 'rope_type' not in rope:
      raise ValueError(
        'rope_parameters of config.json must be the same for all layers of'
        f' model_type={full["model_type"]!r}, got {rope}'
      )
    return {'theta': rope['rope_theta'], 'scaling': _scaling(rope)}
  rope = {**rope}
  try:
    far, near = rope.pop('full_attention'), rope.pop('sliding_attention')
  except KeyError as e:
    raise ValueError(
      f'rope_parameters={rope} of config.json lack {e}; add it'
    ) from e
  if rope:
    raise ValueError(
      'rope_parameters of config.json must hold only full_attention and'
      f' sliding_attention, got {rope} besides; move it into one of them'
    )
  if _scaling(near):
    raise ValueError(
      "rope_parameters of sliding_attention must have rope_type='default',"
      f' got {near}'
    )
  return {
    'theta': far['rope_theta'],
    'scaling': _scaling(far),
    'local_theta': near['rope_theta'],
  }


def _scaling(rope: Config) -> rotary.Scaling | None:
  """Returns the scaling of a model's rotary positions."""
  # A field that is null is not there.
  rest = {name: x for name, x in rope.items() if x is not None}
  kind = rest.get('rope_type')
  if kind not in _SCALINGS:
    raise ValueError(
      f'rope_type of config.json must be one of {tuple(_SCALINGS)}, got'
      f' {kind!r}'
    )
  for name in ('rope_type', 'type', 'rope_theta'):
    rest.pop(name, None)
  try:
    scaling = _SCALINGS[kind](rest.pop)
  except KeyError as e:
    raise ValueError(
      f'rope_parameters={rope} of config.json lack {e}; add it'
    ) from e
  if rest:
    raise ValueError(
      f'rope_parameters of config.json hold {rest}, which'
      f' rope_type={kind!r} does not use; remove it'
    )
  return scaling


def _yarn(take) -> rotary.Yarn:
  """Reads YaRN; take(name[, default]) pops a field of rope_parameters."""
  factor = take('factor')

  def growth(scale: float) -> float:
    return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0

  above, below = take('mscale', None), take('mscale_all_dim', None)
  usual = growth(above) / growth(below) if above and below else growth(1.0)
  amplitude = take('attention_factor', None)
  return rotary.Yarn(
    factor=factor,
    context=take('original_max_position_embeddings'),
    amplitude=usual if amplitude is None else amplitude,
    fast=take('beta_fast', None) or 32.0,
    slow=take('beta_slow', None) or 1.0,
    whole=take('truncate', True),
  )


_SCALINGS = {
  'default': lambda take: None,
  'linear': lambda take: rotary.Linear(take('factor')),
  'llama3': lambda take: rotary.Llama3(
    factor=take('factor'),
    low=take('low_freq_factor'),
    high=take('high_freq_factor'),
    context=take('original_max_position_embeddings'),
  ),
  'yarn': _yarn,
}
