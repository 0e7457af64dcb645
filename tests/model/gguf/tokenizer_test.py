"""Tokenizers of GGUF files against those that they were written from."""

import random

import pytest

from agentrl.model.gguf import folder
from agentrl.text import tokenizer
from tests.errors import raises

gguf = pytest.importorskip('gguf')
from tests import gguf_files  # noqa: E402  needs the package
from tests.model.gguf.folder_test import (  # noqa: E402
  BASE,
  MODELS,
  SIZES,
  cache,  # noqa: F401  a fixture
  random_tensors,
)

SAMPLE = """In 2024 it's 1,234.50 EUR; don't WE'LL say so?  Two  spaces,\ttabs,
\r\nnew lines\n\n\n and naïve café, Straße, ﬁn, Ünïcödé, e\u0301, \u00e9,
中文字, 日本語、テスト。 Привет, мир! שלום עולם 🙂🙃 👩‍👩‍👧
x_1 = foo(bar[10]) // http://a.b/c?d=e#f
McDonald HTTPServer camelCase ALLCAPS 12345678901 ①②③ ½ ٣٤٥ <|im_start|><s>"""


def texts(count: int) -> list[str]:
  """Draws parts of the sample, and strings of letters from all over."""
  rng = random.Random(0)
  pool = [*map(chr, range(32, 0x250)), *map(chr, range(0x370, 0x5F0))]
  pool += [*map(chr, range(0x4E00, 0x4E40)), *'\t\n\r\u3000\u200d\ufe0f🙂']
  out = ['', ' ', '  ', '\n', 'a', ' a', "'s", '0', ' 0', '\u00e9', 'e\u0301']
  while len(out) < count:
    i, n = rng.randrange(len(SAMPLE)), rng.randrange(1, 60)
    part = SAMPLE[i : i + n]
    out.append(part if len(out) % 2 else ''.join(rng.choices(pool, k=n)))
  return out


def written(tmp_path, tokens: dict, **more):
  """Writes a file with these tokens, and reads its tokenizer."""
  architecture, settings, changes = MODELS['qwen3']
  config = BASE | changes | {'vocab_size': len(tokens['tokens'])}
  path = tmp_path / 'a.gguf'
  gguf_files.write(
    path,
    architecture,
    sizes=SIZES | settings,
    tensors=random_tensors(config),
    tokens=tokens,
    **more,
  )
  return tokenizer.HuggingFace(folder.folder(path))


L3 = (
  r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
  r'| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+'
)
QWEN = L3.replace('{1,3}', '')


def byte_level(pre: str):
  """Trains a tokenizer as the models of that pre-tokenizer have them."""
  import tokenizers
  from tokenizers import decoders, models, normalizers, trainers
  from tokenizers import pre_tokenizers as split

  whole = pre == 'llama-bpe'
  made = tokenizers.Tokenizer(models.BPE(ignore_merges=whole))
  pattern = {'llama-bpe': L3, 'qwen2': QWEN}.get(pre)
  steps = [split.ByteLevel(add_prefix_space=False, use_regex=pattern is None)]
  if pattern:
    steps.insert(0, split.Split(tokenizers.Regex(pattern), 'isolated'))
  if pre == 'smollm':
    steps.insert(0, split.Digits(individual_digits=True))
  made.pre_tokenizer = split.Sequence(steps)
  if pre == 'qwen2':
    made.normalizer = normalizers.NFC()
  made.decoder = decoders.ByteLevel()
  trainer = trainers.BpeTrainer(
    vocab_size=600,
    special_tokens=['<|endoftext|>', '<|im_start|>', '<|im_end|>'],
    initial_alphabet=split.ByteLevel.alphabet(),
    show_progress=False,
  )
  made.train_from_iterator([SAMPLE] * 3 + ['123 456 789 1234 99'] * 9, trainer)
  return made


def described(made, **more) -> dict:
  """Returns what a converter writes of a byte-level tokenizer."""
  import json

  model = json.loads(made.to_str())['model']
  tokens = sorted(model['vocab'], key=model['vocab'].get)
  return {
    'tokens': [*tokens, '[PAD]'],
    'types': [3] * 3 + [1] * (len(tokens) - 3) + [5],
    'merges': [' '.join(pair) for pair in model['merges']],
    'bos_token_id': 1,
    'eos_token_id': 2,
  } | more


@pytest.mark.parametrize('pre', ['gpt-2', 'smollm', 'llama-bpe', 'qwen2'])
def test_byte_level_ids_are_those_of_the_original(pre, tmp_path):
  made = byte_level(pre)
  ours = written(tmp_path, described(made, pre=pre))
  for text in texts(500):
    want = made.encode(text, add_special_tokens=False).ids
    assert ours.encode_whole(text, specials=True) == want, text
    if pre != 'qwen2':  # which composes letters and their accents
      assert ours.decode(want) == text
  other = byte_level('smollm' if pre == 'llama-bpe' else 'llama-bpe')
  assert any(
    made.pre_tokenizer.pre_tokenize_str(x)
    != other.pre_tokenizer.pre_tokenize_str(x)
    for x in texts(500)
  )  # so that these texts tell them apart


LETTERS = ['<s>', '</s>', 'a', 'b', 'c', '1', '2', 'ab', '12', 'abc']


@pytest.mark.parametrize(
  ('pre', 'text', 'want'),
  [
    ('gpt-2', '12', ['12']),
    ('smollm', '12', ['1', '2']),  # digits stand alone, whatever merges say
    ('qwen2', '12', ['1', '2']),
    ('llama-bpe', '12', ['12']),
    ('gpt-2', 'abc', ['ab', 'c']),
    ('llama-bpe', 'abc', ['abc']),  # a word is a token, whatever merges say
  ],
)
def test_what_a_pre_tokenizer_is_for(pre, text, want, tmp_path):
  ours = written(
    tmp_path,
    {
      'tokens': LETTERS,
      'types': [3, 3] + [1] * 8,
      'merges': ['a b', '1 2'],
      'pre': pre,
      'bos_token_id': 0,
      'eos_token_id': 1,
    },
  )
  assert ours.pieces(ours.encode(text)) == want


def test_tekken_splits_by_case_and_at_single_digits(tmp_path):
  ours = written(tmp_path, described(byte_level('gpt-2'), pre='tekken'))
  split = ours._tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str
  words = [word for word, _ in split("HTTPServer it's 123\n\nÜber")]
  assert words == ['HTTPServer', 'Ġit', "'s", 'Ġ', '1', '2', '3', 'ĊĊ', 'Ãľber']
  words = [word for word, _ in split('camelCase')]
  assert words == ['camel', 'Case']


def test_specials_template_and_beginning(tmp_path):
  made = byte_level('llama-bpe')
  ours = written(tmp_path, described(made, pre='llama-bpe'))
  assert (ours.bos, ours.eot) == (1, 2)
  assert [*ours.specials()] == ['<|endoftext|>', '<|im_start|>', '<|im_end|>']
  assert ours.encode('<|im_end|>', specials=True) == [2]
  assert 2 not in ours.encode('<|im_end|>')
  assert ours._tokenizer.encode('a')[0] == 1  # its files say so where asked
  count = made.get_vocab_size()
  assert ours.vocab_size == count  # the embedding is padded, and has no token


def test_a_chat_template_is_kept(tmp_path):
  tokens = described(byte_level('qwen2'), pre='qwen2')
  template = '{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}'
  extra = {'tokenizer.chat_template': template}
  ours = written(tmp_path, tokens, extra=extra)
  said = [{'role': 'user', 'content': 'Hi'}]
  assert ours.render(said, ask=False) == 'user: Hi'


@pytest.mark.parametrize('prefix', [True, False])
def test_sentence_pieces_are_those_of_the_library(prefix, tmp_path):
  spm = pytest.importorskip('sentencepiece')
  lines = [x for x in SAMPLE.replace('\r', '').split('\n') if x] * 4
  spm.SentencePieceTrainer.train(
    sentence_iterator=iter(lines),
    model_prefix=str(tmp_path / 'm'),
    vocab_size=560,
    model_type='bpe',
    byte_fallback=True,
    normalization_rule_name='identity',
    add_dummy_prefix=prefix,
    remove_extra_whitespaces=False,
    character_coverage=1.0,
    hard_vocab_limit=False,
    minloglevel=2,
  )
  made = spm.SentencePieceProcessor(model_file=str(tmp_path / 'm.model'))
  ids = range(made.get_piece_size())
  kinds = {
    i: 2 if made.is_unknown(i) else 3 if made.is_control(i)
    else 6 if made.is_byte(i) else 1
    for i in ids
  }  # fmt: skip
  ours = written(
    tmp_path,
    {
      'model': 'llama',
      'tokens': [made.id_to_piece(i) for i in ids],
      'types': [kinds[i] for i in ids],
      'scores': [made.get_score(i) for i in ids],
      'bos_token_id': 1,
      'eos_token_id': 2,
      'unknown_token_id': 0,
      'add_space_prefix': prefix,
    },
  )
  for text in texts(500):
    if text and '▁' not in text:
      want = made.encode(text)
      assert ours.encode_whole(text, specials=False) == want, text
      inner = ours.encode(text)  # goes on behind other text: no space before it
      assert ours.decode(inner) == text


def test_sentence_pieces_need_scores(tmp_path):
  tokens = gguf_files.TOKENS | {'model': 'llama', 'scores': [0.0] * 3}
  with raises(ValueError, 'scores'):
    written(tmp_path, tokens)
