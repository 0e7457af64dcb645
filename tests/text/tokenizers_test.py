"""Conversations by every kind of tokenizer, against those of `transformers`."""

import json
import random

import pytest
import tokenizers
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from agentrl.text import chat_template, jit_template
from agentrl.text.chat_template import Message
from tests import checkpoints

SPECIALS = (
  '<pad>',
  '<s>',
  '<end>',
  '<user>',
  '<asks>',
  '<|im_start|>',
  '<|im_end|>',
  '<unk>',
)
# What is said right behind a special token, behind a new line, and in between.
TIGHT = """
{{- '<s>' -}}
{%- for m in messages -%}
{{ ('<asks>' if m.role == 'assistant' else '<user>') + m.content + '<end>' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<asks>' }}{% endif -%}
"""
LOOSE = (
  TIGHT.replace("'<asks>' ", "'<asks>\\n' ")
  .replace("{{ '<asks>' }}", "{{ '<asks>\\n' }}")
  .replace("'<user>') + m", "'<user>\\n') + m")
)
# The first line of it has no special token before it.
BARE = LOOSE.replace("{{- '<s>' -}}", "{{- 'Be brief.' -}}")
# Thoughts of turns before the last question are taken out.
THINKING = LOOSE.replace(
  'm.content',
  '(m.content if loop.index0 >= messages | '
  "length - 2 else m.content.split('</think>')[-1].lstrip('\\n'))",
)
TEMPLATES = {
  'tight': TIGHT,
  'loose': LOOSE,
  'bare': BARE,
  'thinking': THINKING,
  'chatml': checkpoints.CHATML.replace('<|im_end|>', '<end>'),
}
CORPUS = ['up down left right', 'go up', 'a box and the wall', 'user says so']
LETTERS = [chr(i) for i in range(32, 127)] + ['\n', 'é', '▁']


def metaspace(scheme, model=models.BPE):
  """SentencePiece as tokenizers writes it."""
  inner = tokenizers.Tokenizer(model(unk_token='<unk>'))
  inner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
  inner.decoder = decoders.Metaspace(prepend_scheme=scheme)
  return inner, trainers.BpeTrainer


def llama():
  """As converted from SentencePiece by old versions: in the normalizer."""
  inner = tokenizers.Tokenizer(models.BPE(unk_token='<unk>'))
  inner.normalizer = normalizers.Sequence(
    [
      normalizers.Prepend('▁'),
      normalizers.Replace(' ', '▁'),
    ]
  )
  inner.decoder = decoders.Sequence(
    [
      decoders.Replace('▁', ' '),
      decoders.Fuse(),
      decoders.Strip(' ', 1, 0),
    ]
  )
  return inner, trainers.BpeTrainer


def byte_level(prefix=False):
  inner = tokenizers.Tokenizer(models.BPE(unk_token=None))
  inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
  inner.decoder = decoders.ByteLevel()
  return inner, trainers.BpeTrainer


def wordpiece():
  inner = tokenizers.Tokenizer(models.WordPiece(unk_token='<unk>'))
  inner.normalizer = normalizers.BertNormalizer()
  inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
  inner.decoder = decoders.WordPiece()
  return inner, trainers.WordPieceTrainer


def unigram(collapse=False):
  inner = tokenizers.Tokenizer(models.Unigram())
  if collapse:  # as those of T5 do
    inner.normalizer = normalizers.Replace(tokenizers.Regex(r'\s+'), ' ')
  inner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme='first')
  inner.decoder = decoders.Metaspace(prepend_scheme='first')
  return inner, trainers.UnigramTrainer


KINDS = {
  'bytes': byte_level,
  'bytes_prefix': lambda: byte_level(prefix=True),
  'first': lambda: metaspace('first'),
  'always': lambda: metaspace('always'),
  'never': lambda: metaspace('never'),
  'llama': llama,
  'unigram': unigram,
  'collapsing': lambda: unigram(collapse=True),
  'wordpiece': wordpiece,
}
LOSSY = ('collapsing', 'wordpiece')


def make(path, kind, template):
  inner, trainer = KINDS[kind]()
  options = {'unk_token': '<unk>'} if trainer is trainers.UnigramTrainer else {}
  alphabet = LETTERS
  if kind.startswith('bytes'):
    alphabet = pre_tokenizers.ByteLevel.alphabet()
  inner.train_from_iterator(
    CORPUS,
    trainer(
      vocab_size=400,
      special_tokens=list(SPECIALS),
      initial_alphabet=alphabet,
      show_progress=False,
      **options,
    ),
  )
  theirs = transformers.PreTrainedTokenizerFast(
    tokenizer_object=inner, eos_token='<end>', pad_token='<pad>'
  )
  theirs.chat_template = TEMPLATES[template]
  theirs.save_pretrained(path)
  return path


PARTS = (
  'up',
  ' down',
  'left  right',
  '\n',
  ' ',
  'go',
  '.',
  'a box',
  '</',
  'é',
  '<think>',
  'the wall ',
)


def content(draw, literals=False):
  parts = PARTS + (('<end>', '<s>', '<|im_end|>') if literals else ())
  return ''.join(draw.choices(parts, k=draw.randrange(6)))


def conversation(draw, turns, **how):
  """Messages of two who take turns; some contents are empty."""
  out = [Message('user', content(draw, **how))]
  for _ in range(turns):
    thought = '<think>\nhm\n</think>\n\n' * draw.randrange(2)
    out.append(Message('assistant', thought + content(draw)))
    out.append(Message('user', content(draw, **how)))
  return out


def whole(theirs, messages):
  return theirs.apply_chat_template(
    [m._asdict() for m in messages],
    add_generation_prompt=True,
    return_dict=False,
  )


def played(chat, messages):
  """The conversation, with what the agent says encoded as it is."""
  talk = chat_template.start(chat, messages[:1])
  for mine, heard in zip(messages[1::2], messages[2::2], strict=True):
    ids = [*chat.words.encode(mine.content), chat.eot]
    talk = chat_template.add_messages(
      chat, chat_template.add_reply(chat, talk, ids), [heard]
    )
  return talk


@pytest.mark.parametrize('template', TEMPLATES)
@pytest.mark.parametrize('kind', KINDS)
def test_conversations_are_those_of_transformers(kind, template, tmp_path):
  """Or the tokenizer is refused by its name, before anything is said."""
  path = make(tmp_path / f'a_{kind}', kind, template)
  try:
    chat = chat_template.load(path)
  except ValueError as error:
    refusal = str(error)
  else:
    refusal = ''
  prefixed = kind in ('always', 'llama', 'bytes_prefix') and template == 'tight'
  assert bool(refusal) == (kind in LOSSY or prefixed), refusal
  if refusal:
    assert refusal.startswith(f'tokenizer a_{kind} ')
    assert '\n' not in refusal
    return
  theirs = transformers.AutoTokenizer.from_pretrained(path)
  draw = random.Random(0)
  for i in range(14):
    messages = conversation(draw, turns=i % 4)
    talk = played(chat, messages)
    assert [m.content for m in talk.messages] == [m.content for m in messages]
    if talk.rewritten:
      assert template == 'thinking'
    else:
      assert list(talk.ids) == whole(theirs, messages), messages


@pytest.mark.parametrize('legacy', [False, True])
def test_those_of_llama_itself(legacy, tmp_path):
  """The class of transformers, which makes its own parts."""
  model = json.loads(
    (make(tmp_path, 'first', 'loose') / 'tokenizer.json').read_text()
  )['model']
  theirs = transformers.LlamaTokenizer(
    vocab=model['vocab'],
    merges=[tuple(x) for x in model['merges']],
    legacy=legacy,
    eos_token='<end>',
    additional_special_tokens=['<user>', '<asks>'],
  )
  theirs.chat_template = LOOSE
  theirs.save_pretrained(tmp_path / 'llama')
  chat = chat_template.load(tmp_path / 'llama')
  theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / 'llama')
  assert isinstance(theirs, transformers.LlamaTokenizer)
  draw = random.Random(2)
  for i in range(14):
    messages = conversation(draw, turns=i % 4)
    talk = played(chat, messages)
    assert not talk.rewritten
    assert list(talk.ids) == whole(theirs, messages), messages


@pytest.mark.parametrize('kind', ['bytes', 'first', 'always', 'llama'])
def test_nobody_can_write_a_special_token(kind, tmp_path):
  path = make(tmp_path, kind, 'loose')
  chat = chat_template.load(path)
  draw = random.Random(1)
  for i in range(20):
    messages = conversation(draw, turns=i % 3, literals=True)
    talk = played(chat, messages)
    calm = [
      m._replace(content=m.content.translate({ord('<'): '('})) for m in messages
    ]
    special = {*chat.specials.values()}
    assert [x for x in talk.ids if x in special] == [
      x for x in played(chat, calm).ids if x in special
    ]
    text = chat.words.decode(talk.ids)
    assert all(m.content in text for m in messages)


@pytest.mark.parametrize('kind', ['first', 'always', 'never', 'llama'])
def test_texts_that_go_on_add_up(kind, tmp_path):
  """decode(encode(a) + encode(b)) = a + b, with no space put between."""
  words = chat_template.load(make(tmp_path, kind, 'loose')).words
  for a, b in (('up', 'down'), (' up', ' down'), ('up ', '\n'), ('', 'up')):
    assert words.decode([*words.encode(a), *words.encode(b)]) == a + b


@pytest.mark.parametrize('kind', ['first', 'always', 'never', 'llama'])
def test_frames_of_sentencepiece(kind, tmp_path):
  chat = chat_template.load(make(tmp_path, kind, 'loose'))
  theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
  said = [[*chat.words.encode('up'), chat.eot]]
  f = jit_template.jit_template(chat, ('#', '.', '\n'), said)
  messages = [Message('user', '#.#')]
  ids = [*f.first.tolist(), *chat.words.encode('#.#'), *f.after.tolist()]
  assert ids == whole(theirs, messages)


def test_a_frame_names_the_tokenizer_that_joins(tmp_path):
  """Observations right behind a special token, where a space is put."""
  path = make(tmp_path / 'joins', 'always', 'loose')
  (path / 'chat_template.jinja').write_text(
    LOOSE.replace("'<user>\\n'", "'<user>'")
  )
  chat = chat_template.load(path)
  said = [[*chat.words.encode('up'), chat.eot]]
  with pytest.raises(ValueError):
    jit_template.jit_template(chat, ('#', '.'), said)
