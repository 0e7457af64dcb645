"""The decoder and the tokenizer of a config: its own, or a checkpoint's.

  --config.model.path=DIR

takes both, and the weights that the policy begins with, from a directory that
`save_pretrained` wrote, or from the hub by its name.
"""

import dataclasses
import os
from typing import NamedTuple

from ml_collections import ConfigDict

from agentrl.model import hf_config, hf_weights
from agentrl.nn import transformer
from agentrl.text import chat_template, tokenizer

# Fields of c.model that hold beside a checkpoint, whose config.json has the
# others: how things are computed, not what.
FREE = ('attention', 'remat', 'dtype')
SOURCE = ('path', 'random')


class Language(NamedTuple):
  """Words, and a decoder that reads and writes them."""

  tokenizer: tokenizer.Tokenizer
  shape: transformer.Shape
  chat: chat_template.Chat | None  # of what c.rollout.frame is; None: 'bare'


def language(c: ConfigDict) -> Language:
  """What c.model describes; no weight is read yet.

  Raises:
    ValueError: for a directory that lacks a file or whose files do not fit
      each other, and for a family that is not supported.
  """
  if not c.model.path:
    words = tokenizer.Embedded()
    return Language(words, own(c, words.vocab_size), None)
  directory = hf_weights.locate(c.model.path)
  shape = computed(c, hf_config.shape(hf_config.read(directory)))
  if not c.model.random:
    hf_weights.check(directory, shape)
  return _spoken(c, directory, shape)


def outline(c: ConfigDict, directory: str) -> Language:
  """What a directory describes that need not hold more than a config.json.

  Weights are not looked at. Where there is no tokenizer, words are the
  embedded ones, without a chat.

  Raises: as `language`.
  """
  shape = computed(c, hf_config.shape(hf_config.read(directory)))
  if not os.path.exists(os.path.join(directory, 'tokenizer.json')):
    return Language(tokenizer.Embedded(), shape, None)
  return _spoken(c, directory, shape)


def computed(c: ConfigDict, shape: transformer.Shape) -> transformer.Shape:
  """The shape, computed with as c.model says."""
  return dataclasses.replace(shape, **{name: c.model[name] for name in FREE})


def _spoken(
  c: ConfigDict, directory: str, shape: transformer.Shape
) -> Language:
  words = tokenizer.HuggingFace(directory, vocab=shape.vocab)
  return Language(words, shape, _chat(c, words))


def _chat(
  c: ConfigDict, words: tokenizer.HuggingFace
) -> chat_template.Chat | None:
  """The chat that c.rollout asks for, or that is there."""
  r = c.rollout
  asked = r.frame == 'chat' or r.system
  if r.frame == 'bare' or not (words.chats or asked):
    return None
  return chat_template.of(words)


def own(c: ConfigDict, vocab: int) -> transformer.Shape:
  """The decoder that the fields of c.model describe."""
  if c.model.random:
    raise ValueError(
      'model.random=True draws the weights of a checkpoint, and the model is of'
      ' its own; leave it out, or set model.path'
    )
  fields = {name: x for name, x in c.model.items() if name not in SOURCE}
  return transformer.Shape(vocab=vocab, **fields)


def weights(c: ConfigDict, shape: transformer.Shape):
  """The parameters of the checkpoint, on the mesh that is set."""
  return hf_weights.read(hf_weights.locate(c.model.path), shape)
