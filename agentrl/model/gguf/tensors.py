"""Tensors of a GGUF file under the names of Hugging Face checkpoints."""

import dataclasses
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from agentrl.model.gguf import config, file

_WHOLE = {
  config.EMBED: 'model.embed_tokens.weight',
  config.HEAD: 'lm_head.weight',
  'output_norm.weight': 'model.norm.weight',
}
_LAYER = {
  'attn_norm': 'input_layernorm',
  'attn_q': 'self_attn.q_proj',
  'attn_k': 'self_attn.k_proj',
  'attn_v': 'self_attn.v_proj',
  'attn_output': 'self_attn.o_proj',
  'attn_q_norm': 'self_attn.q_norm',
  'attn_k_norm': 'self_attn.k_norm',
  'ffn_norm': 'post_attention_layernorm',
  'ffn_gate': 'mlp.gate_proj',
  'ffn_up': 'mlp.up_proj',
  'ffn_down': 'mlp.down_proj',
}
_GEMMA = {
  'post_attention_norm': 'post_attention_layernorm',
  'ffn_norm': 'pre_feedforward_layernorm',
  'post_ffw_norm': 'post_feedforward_layernorm',
}


@dataclasses.dataclass(frozen=True)
class LazyTensor:
  """Tensor of a GGUF file, dequantized where it is sliced.

  It has the methods of safetensors' slices. Rows of queries and keys of
  Llama's are stored so that the two of a rotary pair are neighbours, where
  Hugging Face has all first ones of a head before all second ones.

  heads: whose rows are put back in order; 0: rows are in order
  shift: added to every number
  """

  path: pathlib.Path
  stored: file.StoredTensor
  heads: int = 0
  shift: float = 0.0

  def get_shape(self) -> list[int]:
    """Returns the shape."""
    return [*self.stored.shape]

  def get_dtype(self) -> str:
    """Returns the type of what a slice gives."""
    return 'F32'

  def __getitem__(self, index) -> np.ndarray:
    """Dequantizes a part: a slice for each axis, or of the first axes."""
    parts = index if isinstance(index, tuple) else (index,)
    if len(self.stored.shape) == 1:
      out = file.rows(self.path, self.stored, slice(None))[0]
      out = out[self._order()][parts] if self.heads else out[parts]
    else:
      rows = self._order()[parts[0]] if self.heads else parts[0]
      out = file.rows(self.path, self.stored, rows)[(slice(None), *parts[1:])]
    return out + np.float32(self.shift) if self.shift else out

  def _order(self) -> np.ndarray:
    """Returns the stored row of each row of the checkpoint."""
    count = self.stored.shape[0]
    places = np.arange(count).reshape(self.heads, -1, 2)  # [heads, pair, 2]
    return places.swapaxes(1, 2).reshape(count)


def named(
  path: pathlib.Path,
  stored: Mapping[str, file.StoredTensor],
  hf: Mapping[str, Any],
) -> dict[str, LazyTensor]:
  """Maps names of a Hugging Face checkpoint to tensors of a GGUF file.

  A tensor of another name keeps it, so that the reader refuses it by name.

  Args:
    stored: by their names in the file
    hf: its config.json, as `config.config` makes it
  """
  gemma = hf['model_type'] == 'gemma3_text'
  layer = _LAYER | (_GEMMA if gemma else {})
  heads = {}
  if hf['model_type'] == 'llama':
    heads['attn_q'] = hf['num_attention_heads']
    heads['attn_k'] = hf['num_key_value_heads']
  out = {}
  for name, x in stored.items():
    if name == config.ROPE:
      continue  # its factors are in the config
    match = re.fullmatch(r'blk\.(\d+)\.(\w+)\.(weight|bias)', name)
    part = match[2] if match else ''
    theirs = _WHOLE.get(name, name)
    if match and part in layer:
      theirs = f'model.layers.{match[1]}.{layer[part]}.{match[3]}'
    out[theirs] = LazyTensor(
      path=path,
      stored=x,
      heads=heads.get(part, 0),
      # Gemma's norms multiply by 1 + weight; a file has the sum.
      shift=-1.0 if gemma and name.endswith('norm.weight') else 0.0,
    )
  return out
