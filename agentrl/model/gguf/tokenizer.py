"""The tokenizer of a GGUF file, as one of the packages tokenizers builds.

Two kinds: byte-level BPE, whose pre-tokenizer the file only names ('pre'), and
SentencePiece's BPE, whose merges follow from the scores of its tokens.
"""

import math
import re
from typing import Any

from agentrl.domain import Domain, Flag, Text, Whole
from agentrl.model.gguf import file

# Patterns that split texts before byte-level BPE, by the name of `pre`.
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r'| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+'
_LLAMA3 = _WORDS + r'|\p{N}{1,3}' + _REST
_UPPER, _LOWER = r'\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}', r'\p{Ll}\p{Lm}\p{Lo}\p{M}'
_TEKKEN = (
  rf'[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]*[{_LOWER}]+'
  rf'|[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]+[{_LOWER}]*'
  r'|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+'
)
PATTERNS = {
  'gpt-2': '',  # byte-level BPE has its own
  'smollm': '',  # and single digits
  'llama-bpe': _LLAMA3,
  'llama3': _LLAMA3,
  'llama-v3': _LLAMA3,
  'qwen2': _WORDS + r'|\p{N}' + _REST,
  'tekken': _TEKKEN,
}
# A word of the vocabulary is one token, whatever its merges.
_WHOLE_WORDS = ('llama-bpe', 'llama3', 'llama-v3', 'tekken')
_NORMAL, _CONTROL, _USER_DEFINED, _UNUSED = 1, 3, 4, 5  # token types
_SPECIALS = {
  'bos_token_id': 'bos_token',
  'eos_token_id': 'eos_token',
  'unknown_token_id': 'unk_token',
  'padding_token_id': 'pad_token',
}
_DOMAINS: dict[str, Domain] = {
  'model': Text(),
  'pre': Text(),
  'add_bos_token': Flag(),
  'add_space_prefix': Flag(),
}
_LISTS = {'tokens': str, 'token_type': int, 'scores': float, 'merges': str}
_SPACE = '▁'  # as SentencePiece writes it


def build(header: file.Header) -> Any:
  """Builds the tokenizer of a file, its special tokens and chat template.

  Returns: a `transformers.PreTrainedTokenizerFast`
  Raises:
    ValueError: a kind or setting that is not supported, or damaged lists.
  """
  import transformers  # slow to import

  own = _settings(header)
  kind, tokens = own.get('model'), own['tokens']
  builders = {'gpt2': _byte_level, 'llama': _sentence_piece}
  if kind not in builders:
    raise ValueError(
      f'{header.path}: tokenizer.ggml.model must be one of {tuple(builders)},'
      f' got {kind!r}'
    )
  out = builders[kind](header, own)
  _add_specials(header, out, own)
  tokenizer = transformers.PreTrainedTokenizerFast(
    tokenizer_object=out,
    clean_up_tokenization_spaces=False,
    **{
      theirs: tokens[own[ours]]
      for ours, theirs in _SPECIALS.items()
      if ours in own
    },
  )
  template = header.settings.get('tokenizer.chat_template', '')
  Text().check(f'{header.path}: tokenizer.chat_template', template)
  if template:
    tokenizer.chat_template = template
  return tokenizer


def _settings(header: file.Header) -> dict[str, Any]:
  """Returns the settings of the tokenizer; ValueError for damaged lists."""
  prefix = 'tokenizer.ggml.'
  own = {
    name.removeprefix(prefix): value
    for name, value in header.settings.items()
    if name.startswith(prefix)
  }
  for name in ('tokens', 'token_type'):
    if not own.get(name):
      raise ValueError(
        f'{header.path} lacks the setting {prefix}{name}; it holds no tokenizer'
      )
  for name, domain in _DOMAINS.items():
    if name in own:
      domain.check(f'{header.path}: {prefix}{name}', own[name])
  for name, kind in _LISTS.items():
    values = own.get(name, [])
    wrong = [x for x in values if type(x) is not kind]
    if not isinstance(values, list) or wrong:
      raise ValueError(
        f'{header.path}: {prefix}{name} must be a list of {kind.__name__},'
        f' got {[*wrong, values][0]!r:.60}'
      )
  if wrong := [x for x in own.get('scores', ()) if math.isnan(x)]:
    raise ValueError(
      f'{header.path}: {prefix}scores must be numbers, got {wrong[0]}'
    )
  count = len(own['tokens'])
  for name in ('token_type', 'scores'):
    if len(own.get(name, own['tokens'])) != count:
      raise ValueError(
        f'{header.path}: {prefix}{name} must have one entry per token,'
        f' {count}, got {len(own[name])}'
      )
  for name in _SPECIALS:
    if name in own:
      Whole(0, count - 1).check(f'{header.path}: {prefix}{name}', own[name])
  vocab = _vocab(own)
  for i, text in enumerate(own['tokens']):
    if vocab.get(text, i) != i:
      raise ValueError(
        f'{header.path}: {prefix}tokens must differ, got {text!r:.60} at'
        f' {i} and {vocab[text]}; choose another file of the model'
      )
  for name in ('precompiled_charsmap', 'remove_extra_whitespaces'):
    if own.get(name):
      raise ValueError(
        f'{header.path}: {prefix}{name} is not supported; choose a file of'
        ' another model'
      )
  return own


def _vocab(own: dict[str, Any]) -> dict[str, int]:
  """Returns token -> id; padding of the embedding has no token."""
  pairs = zip(own['tokens'], own['token_type'], strict=True)
  named = {own[name] for name in _SPECIALS if name in own}
  return {
    text: i for i, (text, x) in enumerate(pairs) if x != _UNUSED or i in named
  }


def _byte_level(header: file.Header, own: dict[str, Any]) -> Any:
  """Builds a byte-level BPE."""
  import tokenizers
  from tokenizers import decoders, models, normalizers, pre_tokenizers

  pre = own.get('pre')
  if pre not in PATTERNS:
    raise ValueError(
      f'{header.path}: tokenizer.ggml.pre must be one of {tuple(PATTERNS)}, got'
      f' {pre!r}'
    )
  merges = [tuple(x.split(' ', 1)) for x in own.get('merges', ())]
  vocab = _vocab(own)
  for pair in merges:
    if len(pair) != 2 or not {*pair, ''.join(pair)} <= vocab.keys():
      raise ValueError(
        f'{header.path}: tokenizer.ggml.merges must be pairs of its tokens, got'
        f' {" ".join(pair)!r}'
      )
  out = tokenizers.Tokenizer(
    models.BPE(vocab=vocab, merges=merges, ignore_merges=pre in _WHOLE_WORDS)
  )
  pattern = PATTERNS[pre]
  steps: list[Any] = [pre_tokenizers.ByteLevel(False, use_regex=not pattern)]
  if pattern:
    regex = tokenizers.Regex(pattern)
    steps.insert(0, pre_tokenizers.Split(regex, behavior='isolated'))
  if pre == 'smollm':
    steps.insert(0, pre_tokenizers.Digits(individual_digits=True))
  if pre == 'qwen2':
    out.normalizer = normalizers.NFC()
  out.pre_tokenizer = pre_tokenizers.Sequence(steps)
  out.decoder = decoders.ByteLevel()
  return out


def _sentence_piece(header: file.Header, own: dict[str, Any]) -> Any:
  """Builds SentencePiece's BPE, in which unknown characters are bytes."""
  import tokenizers
  from tokenizers import decoders, models, normalizers

  if 'scores' not in own:
    raise ValueError(f'{header.path} lacks the setting tokenizer.ggml.scores')
  vocab = _vocab(own)
  unknown = own.get('unknown_token_id')
  out = tokenizers.Tokenizer(
    models.BPE(
      vocab=vocab,
      merges=_merges(own),
      unk_token=None if unknown is None else own['tokens'][unknown],
      fuse_unk=True,
      byte_fallback=True,
    )
  )
  steps: list[Any] = [normalizers.Replace(' ', _SPACE)]
  undo: list[Any] = [decoders.Replace(_SPACE, ' '), decoders.ByteFallback()]
  undo.append(decoders.Fuse())
  if own.get('add_space_prefix', True):
    steps.insert(0, normalizers.Prepend(_SPACE))
    undo.append(decoders.Strip(content=' ', left=1, right=0))
  out.normalizer = normalizers.Sequence(steps)
  out.decoder = decoders.Sequence(undo)
  return out


def _merges(own: dict[str, Any]) -> list[tuple[str, str]]:
  """Derives the merges of a SentencePiece model, highest score first.

  It merges the neighbours whose union is the token of the highest score; a
  token that is the union of several pairs has as many merges.
  """
  types, scores = own['token_type'], own['scores']
  vocab = _vocab(own)
  merged = []
  for text, i in vocab.items():
    if types[i] not in (_NORMAL, _USER_DEFINED):
      continue  # no text becomes a control token
    for k in range(1, len(text)):
      left, right = vocab.get(text[:k]), vocab.get(text[k:])
      if left is not None and right is not None:
        merged.append((-scores[i], left, right, text[:k], text[k:]))
  return [(left, right) for *_, left, right in sorted(merged)]


def _add_specials(
  header: file.Header, tokenizer: Any, own: dict[str, Any]
) -> None:
  """Adds tokens that are found in texts before anything else.

  And, where the file asks for it, the beginning of a sequence: as it is the
  custom of Llama and SentencePiece where it says nothing.
  """
  import tokenizers
  from tokenizers import processors

  types = own['token_type']
  tokenizer.add_tokens(
    [
      tokenizers.AddedToken(text, special=x == _CONTROL, normalized=False)
      for text, x in zip(own['tokens'], types, strict=True)
      if x in (_CONTROL, _USER_DEFINED)
    ]
  )
  begins = own['model'] == 'llama' or own.get('pre') in _WHOLE_WORDS
  first = own.get('bos_token_id')
  if own.get('add_bos_token', begins) and first is not None:
    text = own['tokens'][first]
    if not re.fullmatch(r'[^\s:$][^\s:]*', text):  # templates are texts
      raise ValueError(
        f'{header.path}: tokenizer.ggml.bos_token_id must be of a token without'
        f' spaces, colons and a $ at its beginning, got {text!r:.60}'
      )
    tokenizer.post_processor = processors.TemplateProcessing(
      single=f'{text} $A',
      pair=f'{text} $A {text}:1 $B:1',
      special_tokens=[(text, first)],
    )
