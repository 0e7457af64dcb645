"""Small GGUF files written on the spot, by the package that defines them."""

import gguf
import numpy as np

# Ours beside Hugging Face's, written down anew: tensors of one layer.
LAYER = {
  'self_attn.q_proj': 'attn_q',
  'self_attn.k_proj': 'attn_k',
  'self_attn.v_proj': 'attn_v',
  'self_attn.o_proj': 'attn_output',
  'self_attn.q_norm': 'attn_q_norm',
  'self_attn.k_norm': 'attn_k_norm',
  'input_layernorm': 'attn_norm',
  'post_attention_layernorm': 'ffn_norm',
  'mlp.gate_proj': 'ffn_gate',
  'mlp.up_proj': 'ffn_up',
  'mlp.down_proj': 'ffn_down',
}
GEMMA = LAYER | {
  'post_attention_layernorm': 'post_attention_norm',
  'pre_feedforward_layernorm': 'ffn_norm',
  'post_feedforward_layernorm': 'post_ffw_norm',
}
TOP = {
  'model.embed_tokens.weight': 'token_embd.weight',
  'lm_head.weight': 'output.weight',
  'model.norm.weight': 'output_norm.weight',
}
TOKENS = {'tokens': ['<s>', *map(chr, range(97, 107))], 'types': [3] + [1] * 10}


def interleaved(x: np.ndarray, heads: int) -> np.ndarray:
  """Writes rows as Llama's files have them: both of a rotary pair together."""
  out, size = np.empty_like(x), len(x) // heads
  for head in range(heads):
    for i in range(size // 2):
      start = head * size
      out[start + 2 * i] = x[start + i]
      out[start + 2 * i + 1] = x[start + size // 2 + i]
  return out


def write(
  path,
  architecture: str,
  *,
  sizes: dict,
  tensors: dict[str, np.ndarray],
  kind: str = 'F32',
  tokens: dict | None = None,
  extra: dict | None = None,
  raw: dict[str, np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
  """Writes a file of Hugging Face's tensors; matrices are of type `kind`.

  sizes: settings of the architecture, by their names in the file
  tokens: 'tokens', 'types' and settings of the tokenizer; None: a few letters
  extra: settings by their whole names
  raw: tensors by their names in the file
  Returns: the tensors, as precise as they were written
  """
  writer = gguf.GGUFWriter(path, architecture)
  for name, value in sizes.items():
    _setting(writer, f'{architecture}.{name}', value)
  for name, value in (extra or {}).items():
    _setting(writer, name, value)
  _write_tokens(writer, tokens or TOKENS)
  layer = GEMMA if architecture == 'gemma3' else LAYER
  kept = {}
  for name, x in tensors.items():
    theirs, stored = TOP.get(name), x
    if theirs is None:
      _, _, i, rest = name.split('.', 3)
      part, _, end = rest.rpartition('.')
      theirs = f'blk.{i}.{layer[part]}.{end}'
    if architecture == 'llama' and '_proj' in name and '.v_' not in name:
      heads = {'q': 'attention.head_count', 'k': 'attention.head_count_kv'}
      of = name.partition('self_attn.')[2][:1]
      stored = interleaved(x, sizes[heads[of]]) if of in heads else x
    if architecture == 'gemma3' and 'norm' in name:
      stored = x + 1
    if x.ndim > 1 and kind != 'F32':
      type_ = gguf.GGMLQuantizationType[kind]
      packed = gguf.quantize(stored, type_)
      writer.add_tensor(theirs, packed, raw_dtype=type_)
      kept[name] = gguf.quantize(x, type_), type_
    else:
      writer.add_tensor(theirs, stored)
      kept[name] = x, gguf.GGMLQuantizationType.F32
  for name, x in (raw or {}).items():
    writer.add_tensor(name, x)
  writer.write_header_to_file()
  writer.write_kv_data_to_file()
  writer.write_tensors_to_file()
  writer.close()
  return {k: gguf.dequantize(x, t).reshape(tensors[k].shape)
          for k, (x, t) in kept.items()}  # fmt: skip


def _setting(writer, name: str, value) -> None:
  kinds = {bool: writer.add_bool, int: writer.add_uint32}
  kinds |= {float: writer.add_float32, str: writer.add_string}
  kinds[list] = writer.add_array
  kinds[type(value)](name, value)


def _write_tokens(writer, tokens: dict) -> None:
  prefix = 'tokenizer.ggml.'
  writer.add_tokenizer_model(tokens.get('model', 'gpt2'))
  writer.add_token_list(tokens['tokens'])
  writer.add_token_types(tokens['types'])
  if tokens.get('model', 'gpt2') == 'gpt2':
    _setting(writer, f'{prefix}pre', tokens.get('pre', 'gpt-2'))
    if tokens.get('merges'):
      writer.add_token_merges(tokens['merges'])
  else:
    writer.add_token_scores(tokens['scores'])
  given = ('model', 'tokens', 'types', 'pre', 'merges', 'scores')
  for name, value in tokens.items():
    if name not in given:
      _setting(writer, f'{prefix}{name}', value)
