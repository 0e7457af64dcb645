"""Domains of the fields of a Hugging Face config.json."""

from collections.abc import Mapping
from typing import Any

from agentrl.domain import (
  COUNT,
  NOT_NEGATIVE,
  POSITIVE,
  Domain,
  Flag,
  OneOf,
  Real,
  Text,
  Tuple,
  Whole,
)

_MANY = Whole(1, 1 << 16)  # of what a list is made
# By the fields of DecoderConfig that they become.
_OURS: dict[str, Domain] = {
  'vocab': COUNT,
  'width': COUNT,
  'layers': _MANY,
  'heads': _MANY,
  'kv_heads': _MANY,
  'mlp': COUNT,
  'eps': POSITIVE,
  'tied': Flag(),
  'init_std': NOT_NEGATIVE,
  'query_size': POSITIVE,
  'logit_cap': POSITIVE,
  'score_cap': POSITIVE,
  'experts': Whole(0, 1 << 16),
  'top_k': _MANY,
  'unit_top_k': Flag(),
}
_TOKEN = Whole(-1)
# By their own names.
_THEIRS: dict[str, Domain] = {
  'head_dim': _MANY,
  'attention_bias': Flag(),
  'mlp_bias': Flag(),
  'sliding_window': Whole(0),
  'layer_types': Tuple(Text(empty=False)),
  'hidden_act': Text(),
  'hidden_activation': Text(),
  'max_position_embeddings': COUNT,
  'max_window_layers': Whole(0),
  'pad_token_id': _TOKEN,
  'bos_token_id': _TOKEN,
  'dtype': OneOf('bfloat16', 'float16', 'float32', 'float64'),
  'torch_dtype': OneOf('bfloat16', 'float16', 'float32', 'float64'),
}
_NONE = ('logit_cap', 'score_cap', 'init_std')  # may be null
_WORDS = ('rope_type', 'type')
_ROPE: dict[str, Domain] = {
  **dict.fromkeys(_WORDS, Text(empty=False)),
  'rope_theta': Real(1),
  'factor': Real(1),
  'low_freq_factor': POSITIVE,
  'high_freq_factor': POSITIVE,
  'original_max_position_embeddings': COUNT,
  'attention_factor': POSITIVE,
  'beta_fast': POSITIVE,
  'beta_slow': POSITIVE,
  'mscale': NOT_NEGATIVE,
  'mscale_all_dim': NOT_NEGATIVE,
  'truncate': Flag(),
}


def check(
  fields: Mapping[str, str], config: Mapping[str, Any], *, whole: bool = False
) -> None:
  """Raises ValueError for a field whose value cannot be.

  Args:
    fields: of a family, its name -> that of DecoderConfig
    whole: every field is there, and null where it may be
  """
  for name, ours in fields.items():
    value = config.get(name)
    if value is not None or (whole and ours not in _NONE):
      _OURS[ours].check(f'config.json: {name}', value)
  for name, domain in _THEIRS.items():
    if config.get(name) is not None:
      domain.check(f'config.json: {name}', config[name])
  rope = config.get('rope_scaling')  # of transformers none, if it is empty
  if not isinstance(rope, dict | None):
    raise ValueError(
      f'config.json: rope_scaling must be an object or null, got {rope!r:.60}'
    )
  if whole and (pad := config.get('pad_token_id')) is not None:
    last = config['vocab_size'] - 1
    Whole(-1, last).check('config.json: pad_token_id', pad)


def check_rope(rope: Any) -> None:
  """Raises ValueError for rope_parameters that cannot be."""
  if not isinstance(rope, dict):
    raise ValueError(
      f'config.json: rope_parameters must be an object, got {rope!r:.60}'
    )
  for name, value in rope.items():
    if isinstance(value, dict) and name not in _ROPE:
      check_rope(value)
    elif name in _ROPE and (value is not None or name == 'rope_theta'):
      _ROPE[name].check(f'config.json: rope_parameters.{name}', value)
