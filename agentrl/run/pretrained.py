"""Decoder and tokenizer of a config: its own, or a checkpoint's.

  --config.model.path=DIR

takes both, and the weights that the policy begins with, from a directory that
`save_pretrained` wrote, or from the hub by its name.
"""

import dataclasses
import os
from typing import NamedTuple

from agentrl.configs.config import Config, to_dict
from agentrl.model import hf_config, hf_weights
from agentrl.nn import transformer
from agentrl.runtime import precision
from agentrl.text import chat_template, tokenizer

# Fields of c.model that hold beside a checkpoint, whose config.json has the
# others: how things are computed, not what.
FREE = ('attention', 'decode_attention', 'remat', 'dtype')
SOURCE = ('path', 'random')


class Language(NamedTuple):
  """A tokenizer, and a decoder of its vocabulary."""

  tokenizer: tokenizer.Tokenizer
  shape: transformer.DecoderConfig
  chat: (
    chat_template.Chat | None
  )  # of what c.rollout.chat_format is; None: 'bare'


def language(c: Config) -> Language:
  """Returns the tokenizer and decoder of c.model; opens no weights.

  Raises:
    ValueError: for a directory that lacks a file or whose files do not fit
      each other, and for a family that is not supported.
  """
  if not c.model.path:
    words = tokenizer.Embedded()
    return Language(words, own(c, words.vocab_size), None)
  directory = hf_weights.locate(c.model.path, weights=False)
  shape = computed(c, hf_config.shape(hf_config.read(directory)))
  return _spoken(c, directory, shape)


def check_weights(c: Config, shape: transformer.DecoderConfig) -> None:
  """Raises ValueError unless the checkpoint has the weights of the shape."""
  if c.model.path and not c.model.random:
    hf_weights.check(hf_weights.locate(c.model.path), shape)


def outline(c: Config, directory: str | os.PathLike) -> Language:
  """Returns tokenizer and decoder of a directory with only a config.json.

  Weights are not looked at. Without a tokenizer the embedded one is
  taken, without a chat template.

  Raises: as `language`.
  """
  shape = computed(c, hf_config.shape(hf_config.read(directory)))
  if not os.path.exists(os.path.join(directory, 'tokenizer.json')):
    return Language(tokenizer.Embedded(), shape, None)
  return _spoken(c, directory, shape)


def computed(
  c: Config, shape: transformer.DecoderConfig
) -> transformer.DecoderConfig:
  """Returns the shape, computed with as c.model says."""
  free = {x: getattr(c.model, x) for x in FREE}
  return dataclasses.replace(
    shape, **free | {'dtype': precision.of_device(c.model.dtype)}
  )


def _spoken(
  c: Config, directory: str | os.PathLike, shape: transformer.DecoderConfig
) -> Language:
  words = tokenizer.HuggingFace(directory, vocab=shape.vocab)
  r = c.rollout
  if r.system and not words.chats and r.chat_format == 'auto':
    raise ValueError(
      f'the checkpoint {directory} has no chat template, and rollout.system is'
      ' a message in one; set --config.rollout.system= to have plain texts, or'
      ' put a chat_template.jinja into its folder'
    )
  wanted = r.chat_format != 'bare' and (
    words.chats or r.chat_format == 'chat' or r.system
  )
  return Language(words, shape, chat_template.of(words) if wanted else None)


def own(c: Config, vocab: int) -> transformer.DecoderConfig:
  """Returns the decoder that the fields of c.model describe."""
  if c.model.random:
    raise ValueError(
      'model.random=True draws the weights of a checkpoint, and the model is of'
      ' its own; leave it out, or set model.path'
    )
  model = to_dict(c.model)
  model['dtype'] = precision.of_device(c.model.dtype)
  fields = {name: x for name, x in model.items() if name not in SOURCE}
  return transformer.DecoderConfig(vocab=vocab, **fields)


def weights(c: Config, shape: transformer.DecoderConfig):
  """Returns the parameters of the checkpoint, on the mesh that is set."""
  return hf_weights.read(hf_weights.locate(c.model.path), shape)
