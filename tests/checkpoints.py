"""Small checkpoints made on the spot: tokenizer, config.json and weights."""

import jax
import numpy as np
import tokenizers
import transformers

from agentrl import mesh
from agentrl.model import hf_config, hf_weights
from agentrl.nn import transformer

WORDS = ('up', 'down', 'left', 'right')
PLAIN = ('<|endoftext|>', '<|im_start|>', '<|im_end|>')
HEADED = ('<|end|>', '<|bos|>', '<|head|>', '<|tail|>', '<|eot|>')
# Plain blocks: a header, the content, an end, a newline; a default system.
CHATML = """
{%- if messages[0].role != 'system' -%}
{{ '<|im_start|>system\\nBe brief.<|im_end|>\\n' }}
{%- endif -%}
{%- for m in messages -%}
{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif -%}
"""
# A beginning of the text, headers between two specials, trimmed contents.
HEADERS = """
{{- '<|bos|>' -}}
{%- for m in messages -%}
{{ '<|head|>' + m.role + '<|tail|>\\n\\n' + (m.content | trim) + '<|eot|>' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|head|>assistant<|tail|>\\n\\n' }}
{%- endif -%}
"""
CHATS = {  # template, specials, eos
  'chatml': (CHATML, PLAIN, '<|im_end|>'),
  'headers': (HEADERS, HEADED, '<|end|>'),  # which does not end a turn
}


def tokenizer(
  path,
  *,
  specials=PLAIN,
  eos='<|im_end|>',
  template: str | None = None,
  words=WORDS,
):
  """Saves byte-level BPE to `path`: all bytes, `words`, and the specials."""
  inner = tokenizers.Tokenizer(tokenizers.models.BPE())
  inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
    add_prefix_space=False
  )
  inner.decoder = tokenizers.decoders.ByteLevel()
  trainer = tokenizers.trainers.BpeTrainer(
    vocab_size=256 + 64 + len(specials),
    special_tokens=list(specials),
    initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    show_progress=False,
  )
  inner.train_from_iterator([*words, *(' ' + word for word in words)], trainer)
  made = transformers.PreTrainedTokenizerFast(
    tokenizer_object=inner, eos_token=eos, pad_token=specials[0]
  )
  made.chat_template = template
  made.save_pretrained(path)
  return path


def chat(path, kind: str):
  """Saves the tokenizer of one of CHATS."""
  template, specials, eos = CHATS[kind]
  return tokenizer(path, specials=specials, eos=eos, template=template)


CONFIG = {
  'model_type': 'qwen2',
  'vocab_size': 384,
  'hidden_size': 32,
  'intermediate_size': 64,
  'num_hidden_layers': 2,  # more than one, so that they are stacked
  'num_attention_heads': 4,
  'num_key_value_heads': 2,
  'tie_word_embeddings': True,
  'dtype': 'float32',
}


def model(path, **changes):
  """Saves a random Qwen2 to `path`; its biases are not zero."""
  config = CONFIG | changes
  rng = np.random.default_rng(0)
  params = jax.tree.map(
    lambda p: rng.normal(size=p.shape, scale=0.05).astype(np.float32),
    transformer.specs(hf_config.shape(config)),
    is_leaf=mesh.is_param,
  )
  hf_weights.write(path, config, params)
  return path
