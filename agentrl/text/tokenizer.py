"""Text to token ids and back: the tokenizer that ships, and Hugging Face's."""

import itertools
import json
import os
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from agentrl.text import surrogates


class Tokenizer(Protocol):
  """Protocol of tokenizers; ids are in [0, vocab_size)."""

  name: str  # filesystem-safe; written beside checkpoints and data sets
  vocab_size: int
  pad: int
  bos: int
  eot: int  # ends a turn; the only id that does

  def encode(self, text: str, *, specials: bool = False) -> list[int]:
    """Encodes `text`, as it goes on behind other text.

    A special's literal becomes one only with `specials`. Leave it off for
    anything an environment, a tool or a user wrote: with it on, an observation
    that contains the end-of-turn literal ends the turn. Half a surrogate
    pair is encoded as U+FFFD.
    """

  def decode(self, ids: Sequence[int]) -> str:
    """Returns the text of the ids, specials written out as their literals."""

  def pieces(self, ids: Sequence[int]) -> list[str]:
    """Returns one printable string for each id, for display only."""

  def specials(self) -> dict[str, int]:
    """Maps literals to ids of the tokens that no text becomes by itself."""


# Ids are positions in this order, so append only: a saved model holds them.
SPECIALS = (
  '<pad>', '<bos>', '<eot>', '<user>', '<assistant>',
  '<think>', '</think>', '<answer>', '</answer>',
)  # fmt: skip
WORDS = (
  'up', 'down', 'left', 'right', 'north', 'south', 'east', 'west',
  'push', 'pull', 'pick', 'drop', 'open', 'close', 'take', 'put',
  'use', 'look', 'go', 'move', 'stay', 'wait', 'stop', 'done',
  'yes', 'no', 'wall', 'box', 'goal', 'player', 'key', 'door',
)  # fmt: skip
_FIRST_BYTE = len(SPECIALS)
_FIRST_WORD = _FIRST_BYTE + 256


def _longest_first(words: Sequence[str]) -> re.Pattern[str]:
  """Returns a pattern that matches the longest of the words, leftmost first."""
  ordered = sorted(words, key=len, reverse=True)
  return re.compile('(' + '|'.join(map(re.escape, ordered)) + ')')


_IDS = {
  **{text: i for i, text in enumerate(SPECIALS)},
  **{text: i for i, text in enumerate(WORDS, _FIRST_WORD)},
}
_TEXTS = {i: text for text, i in _IDS.items()}
_PLAIN = _longest_first(WORDS)
_FULL = _longest_first(WORDS + SPECIALS)


class Embedded:
  """A tokenizer of 297 tokens that needs no file, for small models and tests.

  Ids: 0-8 the specials, 9-264 the 256 bytes of UTF-8 (so every printable
  ASCII character and the newline is one token), 265-296 common words, matched
  greedily, longest first. `vocab_size` is 320, the next multiple of 64; the
  ids between are unused, and read as U+FFFD should a model sample one.

  `decode(encode(text))` is `text` for every text of Unicode characters.
  """

  name = 'embedded'
  vocab_size = 320
  pad, bos, eot = 0, 1, 2

  def encode(self, text: str, *, specials: bool = False) -> list[int]:
    pattern = _FULL if specials else _PLAIN
    ids = []
    # Splitting on a group alternates text (even places) and matches (odd).
    for place, part in enumerate(pattern.split(surrogates.replaced(text))):
      if place % 2:
        ids.append(_IDS[part])
      else:
        ids.extend(_FIRST_BYTE + byte for byte in part.encode())
    return ids

  def decode(self, ids: Sequence[int]) -> str:
    data = bytearray()
    for i in _checked(self, ids):
      if _FIRST_BYTE <= i < _FIRST_WORD:
        data.append(i - _FIRST_BYTE)
      else:
        data += _TEXTS.get(i, '\ufffd').encode()
    # A model may sample any bytes; what is no UTF-8 reads as U+FFFD.
    return data.decode('utf-8', 'replace')

  def pieces(self, ids: Sequence[int]) -> list[str]:
    return [self._piece(i) for i in _checked(self, ids)]

  def specials(self) -> dict[str, int]:
    """Does as the protocol says."""
    return {x: i for x, i in _IDS.items() if i < _FIRST_BYTE}

  def _piece(self, i: int) -> str:
    if _FIRST_BYTE <= i < _FIRST_WORD:
      byte = i - _FIRST_BYTE
      return chr(byte) if 32 <= byte < 127 else f'<0x{byte:02X}>'
    return _TEXTS.get(i, f'<unused {i}>')


# Date given to chat templates that take one: the default of Llama 3.1.
DAY = '26 Jul 2024'
# Characters; longer texts are encoded by a call that lets other threads run.
_SHORT = 1 << 14
# Whether literals become special tokens is a switch of the tokenizer itself,
# which all threads share; of fast ones there is a copy for each.
_SWITCHED = threading.Lock()


class HuggingFace:
  """The tokenizer in a local folder, read by `transformers.AutoTokenizer`.

  `eot` is its end-of-sequence id, or that of its chat template's turns where
  text/chat_template.py loaded it. A tokenizer without a beginning or padding
  token uses `eot` for it: padding is known by length, never by id.

  Some tokenizers put a space before the first word of a text, and take it off
  again (SentencePiece). Texts here are parts of conversations, so that `encode`
  and `decode` leave it out: what follows another text begins with no space of
  its own. `encode_whole` is for texts from their beginning.

  Args:
    vocab: how many tokens the model's embedding has, which may be more than
      the tokenizer knows; 0: up to the last that it knows. Ids without a
      token, behind the last or between, read as U+FFFD.
  """

  def __init__(self, path: str | os.PathLike[str], *, vocab: int = 0):
    self._tokenizer = _load(os.fspath(path))
    # By whether literals become special tokens; None: no fast one, or the same.
    self._whole = _copies(self._tokenizer, lambda parts: parts)
    self._inner = _copies(self._tokenizer, _without_prefix)
    added = self._tokenizer.added_tokens_decoder
    self._known = {*self._tokenizer.get_vocab().values(), *added}
    tokens = 1 + max(self._known)
    if 0 < vocab < tokens:
      raise ValueError(
        f'tokenizer {path} has ids up to {tokens - 1} and the embedding'
        f' of the model has {vocab} rows; give the tokenizer that the model'
        ' was trained with, or enlarge the embedding (vocab_size)'
      )
    eot = self._tokenizer.eos_token_id
    if eot is None:
      raise ValueError(
        f'tokenizer {path} has no end-of-sequence token; set eos_token in '
        'its tokenizer_config.json'
      )
    bos = self._tokenizer.bos_token_id
    pad = self._tokenizer.pad_token_id
    self.name = os.path.basename(os.path.abspath(path))
    self.vocab_size = vocab or tokens
    self.eot: int = eot
    self.bos: int = eot if bos is None else bos
    self.pad: int = eot if pad is None else pad

  def encode(self, text: str, *, specials: bool = False) -> list[int]:
    if self._inner is None:
      return self.encode_whole(text, specials=specials)
    return _ids(self._inner[specials], text)

  def encode_whole(self, text: str, *, specials: bool) -> list[int]:
    """Encodes a text from its beginning, as `transformers` does."""
    if self._whole is not None:
      return _ids(self._whole[specials], text)
    text = surrogates.replaced(text)
    with _SWITCHED:
      return self._tokenizer.encode(
        text, add_special_tokens=False, split_special_tokens=not specials
      )

  def encode_sections(self, texts: Sequence[str]) -> list[list[int]]:
    """Encodes the sections between special tokens of a whole text.

    No special's literal becomes one. Behind a special token some tokenizers
    begin as at the beginning of a text, and some do not.
    """
    first, *rest = texts
    end = self._tokenizer.eos_token
    _, *behind = self.encode_whole(f'{end}a', specials=True)
    if self._inner is not None and behind == self.encode('a'):
      begun = self.encode_whole(first, specials=False)
      return [begun, *map(self.encode, rest)]
    return [self.encode_whole(text, specials=False) for text in texts]

  def decode(self, ids: Sequence[int]) -> str:
    runs = itertools.groupby(_checked(self, ids), self._known.__contains__)
    return ''.join(self._text(valid, list(run)) for valid, run in runs)

  def _text(self, valid: bool, ids: list[int]) -> str:
    if not valid:  # which `decode` would leave out in silence
      return '\ufffd' * len(ids)
    if self._inner is not None:
      return self._inner[False].decode(ids, skip_special_tokens=False)
    return self._tokenizer.decode(ids, clean_up_tokenization_spaces=False)

  def pieces(self, ids: Sequence[int]) -> list[str]:
    return [self.decode([i]) for i in ids]

  def specials(self) -> dict[str, int]:
    """Maps literals to ids of the tokens that no text becomes by itself."""
    added = self._tokenizer.added_tokens_decoder.items()
    return {token.content: i for i, token in added if token.special}

  @property
  def chats(self) -> bool:
    """True if there is a chat template."""
    return bool(self._tokenizer.chat_template)

  @property
  def dated(self) -> bool:
    """True if the chat template writes the current date and takes no other."""
    template = str(self._tokenizer.chat_template)
    return 'strftime_now' in template and 'date_string' not in template

  def render(self, messages: Sequence[dict[str, str]], *, ask: bool) -> str:
    """Renders the chat template's text of messages, each 'role' and 'content'.

    Today is DAY: a run that goes on tomorrow reads what it read.

    Args:
      ask: up to where the assistant is to speak, not to the last message's end
    Raises:
      ValueError: without a chat template, or if it refuses the messages.
    """
    if not self.chats:
      raise ValueError(
        f'tokenizer {self.name} has no chat template; put a'
        ' chat_template.jinja into its folder, or take a checkpoint that was'
        ' trained to chat'
      )
    try:
      return self._tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=ask, date_string=DAY
      )
    except Exception as error:  # whatever the template raises
      reason = str(error).strip().split('\n')[0]
      raise ValueError(
        f'the chat template of tokenizer {self.name} refuses messages of roles'
        f' {[m["role"] for m in messages]} ({reason}); give others'
      ) from error


def _checked(tokenizer: Tokenizer, ids: Sequence[int]) -> list[int]:
  """Returns the ids as Python integers, each of them in the vocabulary."""
  ids, size = [*map(int, ids)], tokenizer.vocab_size
  for i in ids:
    if not 0 <= i < size:
      raise ValueError(
        f'token id {i} is not in [0, {size}), the vocabulary of tokenizer'
        f' {tokenizer.name}; cut padding off before decoding'
      )
  return ids


def _ids(tokenizer, text: str) -> list[int]:
  """Encodes by a `tokenizers.Tokenizer`."""
  text = surrogates.replaced(text)
  if len(text) <= _SHORT:
    return tokenizer.encode(text, add_special_tokens=False).ids
  (out,) = tokenizer.encode_batch_fast([text], add_special_tokens=False)
  return out.ids


def _copies(tokenizer, change: Callable[[Any], Any]) -> dict[bool, Any] | None:
  """Returns `tokenizers.Tokenizer`s: one makes special tokens, one does not.

  Args:
    tokenizer: of `transformers`
    change: of its description; None: there is nothing to change
  """
  if not tokenizer.is_fast:
    return None
  described = change(json.loads(tokenizer.backend_tokenizer.to_str()))
  if described is None:
    return None
  import tokenizers  # comes with transformers

  out = {}
  for specials in (False, True):
    copy = tokenizers.Tokenizer.from_str(json.dumps(described))
    copy.no_truncation()
    copy.no_padding()
    copy.encode_special_tokens = not specials
    out[specials] = copy
  return out


def _without_prefix(described: dict[str, Any]) -> dict[str, Any] | None:
  """Returns the description of texts that go on; None if it is the same."""
  parts = {x: described[x] for x in ('normalizer', 'pre_tokenizer', 'decoder')}
  inner = {name: _plain(part) for name, part in parts.items()}
  return None if inner == parts else described | inner


def _plain(part: Any) -> Any:
  """Returns a part of tokenizer.json that leaves beginnings of texts alone."""
  if isinstance(part, list):
    return [x for x in map(_plain, part) if x is not None]
  if not isinstance(part, dict):
    return part
  match part:
    case {'type': 'Prepend'}:
      return None
    case {'type': 'Metaspace'}:
      return part | {'prepend_scheme': 'never'}
    case {'type': 'ByteLevel'}:
      return part | {'add_prefix_space': False}
    case {'type': 'Strip', 'start': int()}:
      return part | {'start': 0}
  return {name: _plain(x) for name, x in part.items()}


def _load(path: str):
  """Returns a `transformers` tokenizer, or one sentence on why not."""
  if not os.path.isdir(path):
    raise ValueError(
      f'tokenizer folder {path} does not exist; give the local folder that '
      'holds tokenizer.json'
    )
  from transformers import AutoTokenizer  # seconds to import: only if asked

  try:
    tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
    # Without its files some are made of the settings alone.
    if set(tokenizer.get_vocab()) <= set(tokenizer.get_added_vocab()):
      raise ValueError('it has no vocabulary')
    tokenizer.encode('a')  # which compares lengths with what its files say
  except Exception as error:
    reason = str(error).strip().split('\n')[0]
    raise ValueError(
      f'tokenizer folder {path} cannot be read ({reason}); it needs the '
      'tokenizer.json and tokenizer_config.json of a fast tokenizer'
    ) from error
  return tokenizer
