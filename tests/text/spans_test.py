"""Parts of messages, against the pieces that they were put together from."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.text import spans, tokenizer
from agentrl.text.tool_calls import FORMATS, base, format_of
from agentrl.text.tool_calls.base import Call, ToolDescription
from tests import checkpoints

WORDS = tokenizer.Embedded()
STRING = {'properties': {'x': {'type': 'string'}}, 'required': ['x']}
TOOLS = [ToolDescription(name, '', STRING) for name in ('find', 'run')]
# Formats whose message is nothing but calls.
ALONE = ('llama_json', 'llama_pythonic')
ARGUMENT = {
  'hermes': lambda text: text.partition('"arguments": ')[2].rpartition('}\n')[
    0
  ],
  'llama_json': lambda text: text.partition('"parameters": ')[2][:-1],
  'llama_pythonic': lambda text: text.partition('(')[2][:-2],
  'tagged': lambda text: text.partition('>')[2].rpartition('</')[0],
}
PLAIN = st.text('ab é€😀{}[]()"\'\\,;:\n', max_size=8)
VALUES = st.builds(lambda x: f'q{x}q', PLAIN)  # no outer space, not empty
THOUGHTS = st.sampled_from(['', '<think>', '<think>so <find>no</find>'])
FORMS = pytest.mark.parametrize('name', FORMATS)


def painted(text, intervals):
  """The part of each character."""
  out = ['other'] * len(text)
  for start, end, part in intervals:
    assert start < end
    assert set(out[start:end]) == {'other'}, 'intervals overlap'
    out[start:end] = [part] * (end - start)
  return out


def marked(name, text):
  return spans.mark(text, format_of(name).locate(text, TOOLS))


def assembled(pieces):
  """(text, the part of each character) of (text, part) in order."""
  parts = [part for text, part in pieces for _ in text]
  return ''.join(text for text, _ in pieces), parts


def called(name, call):
  """The pieces of a call as its format writes it."""
  text = format_of(name).write([call])
  argument = ARGUMENT[name](text)
  head, here, tail = text.partition(argument)
  assert here, 'the test looks for an argument that is not there'
  return [(head, 'call'), (argument, 'argument'), (tail, 'call')]


@FORMS
@settings(max_examples=150, deadline=None)
@given(
  thought=THOUGHTS,
  junk=st.lists(st.sampled_from(['', ' ', 'so ', '\n€ ']), min_size=3),
  values=st.lists(VALUES, min_size=1, max_size=3),
  answer=st.sampled_from(['', '6', 'é\n']),
)
def test_parts_are_those_a_message_was_made_of(
  name, thought, junk, values, answer
):
  pieces = []
  if thought:
    pieces.append((f'{thought}{junk[0]}</think>', 'thought'))
  calls = [Call('find', {'x': value}) for value in values]
  if name in ALONE:
    calls = calls[:1]
    pieces += [(' ', 'other'), *called(name, calls[0]), ('\n ', 'other')]
  else:
    for call in calls:
      pieces += [(junk[1], 'other'), *called(name, call)]
    pieces.append((junk[2], 'other'))
    if answer:
      pieces.append((f'<answer>{answer}</answer>', 'answer'))
  text, parts = assembled(pieces)
  assert format_of(name).parse(text, TOOLS) == calls
  assert painted(text, marked(name, text)) == parts


@FORMS
@settings(max_examples=150, deadline=None)
@given(values=st.lists(VALUES, min_size=1, max_size=3))
def test_the_places_of_several_calls_read_as_those_calls_alone(name, values):
  form = format_of(name)
  calls = [Call('find', {'x': value}) for value in values]
  text = form.write(calls)
  places = form.locate(text, TOOLS)
  assert [place.call for place in places] == calls
  last = 0
  for place in places:
    (start, end), (first, behind) = place.whole, place.argument
    assert last <= start < first < behind < end
    last = end
    alone = text[start:end]
    if name == 'llama_pythonic':
      alone = f'[{alone.removeprefix("[").removesuffix("]")}]'
    assert form.parse(alone, TOOLS) == [place.call]
  assert places[0].whole[0] == 0
  assert last == len(text)


@FORMS
@settings(max_examples=300, deadline=None)
@given(
  st.lists(
    st.sampled_from(
      [
        '<think>',
        '</think>',
        '<answer>',
        '</answer>',
        'six',
        ' ',
        '€',
        '\n',
        '<find>',
        '</find>',
        '<tool_call>',
        '</tool_call>',
        '{"name": "f"}',
        '[f(x=1',
        ', g(y=2)',
        ')]',
        ']',
        '<|python_tag|>',
        ';',
        "'</think>'",
        '{"name": "find", "parameters": {"x": "</think>"}}',
        '{"name": "find", "arguments": {"x": 1}, "arguments": {"x": 2}}',
      ]
    ),
    max_size=9,
  )
)
def test_what_is_marked_is_what_the_format_reads(name, pieces):
  """Of any text at all."""
  text = ''.join(pieces)
  parts = painted(text, marked(name, text))
  spoken = len(text) - len(base.spoken(text))
  calls = [
    place
    for place in format_of(name).locate(text, TOOLS)
    if isinstance(place.call, Call)
  ]
  inside = [False] * len(text)
  for place in calls:
    (start, end), (first, behind) = place.whole, place.argument
    assert set(parts[start:end]) <= {'call', 'argument'}
    assert 'call' not in parts[first:behind]
    assert parts[start:end].count('argument') == behind - first
    inside[start:end] = [True] * (end - start)
  for part, here in zip(parts, inside, strict=True):
    assert here == (part in ('call', 'argument'))
  assert 'thought' not in parts[spoken:]
  assert 'answer' not in parts[:spoken]


@pytest.mark.parametrize(
  ('name', 'text'),
  [
    ('tagged', '<find>six'),
    ('hermes', '<tool_call>{"name": "find"}</tool_call>'),
    ('hermes', '<tool_call>{"name": "find", "arguments": {}}'),
    ('hermes', '<tool_call>{"name": "find"'),
    ('llama_json', '{"name": "find", "parameters": 6}'),
    ('llama_json', '{"name": "find", "parameters": {}} so'),
    ('llama_pythonic', '[find(6)]'),
    ('llama_pythonic', '[find(x=6]'),
    # Hidden by the end of a thought in its own argument.
    (
      'hermes',
      '<tool_call>{"name": "find", "arguments": {"x": "</think>"}}</tool_call>',
    ),
  ],
)
def test_what_cannot_be_read_is_no_part(name, text):
  assert marked(name, text) == []


def test_beside_a_call_that_cannot_be_read_others_are_calls():
  text = '[find(6), run(x="a")]'
  assert marked('llama_pythonic', text) == [
    (10, 14, 'call'),
    (14, 19, 'argument'),
    (19, 21, 'call'),
  ]


def test_python_places_count_characters_not_bytes():
  text = "<|python_start|>[f(x='é€'),\r\n g(**{'😀': 1}, y=2),\n h()]"
  places = format_of('llama_pythonic').locate(text, ())
  assert [text[slice(*x.argument)] for x in places] == [
    "x='é€'",
    "**{'😀': 1}, y=2",
    '',
  ]
  assert [text[slice(*x.whole)] for x in places] == [
    "<|python_start|>[f(x='é€')",
    "g(**{'😀': 1}, y=2)",
    'h()]',
  ]


def test_of_an_argument_given_twice_the_one_that_is_read():
  text = '{"parameters": {"x": 1}, "name": "f", "parameters": {"x": 2}}'
  (place,) = format_of('llama_json').locate(text, ())
  assert place.call.args == {'x': 2}
  assert text[slice(*place.argument)] == '{"x": 2}'


def test_without_calls_there_are_thoughts_and_answers():
  text = '<think>a <answer>1</answer></think> so <answer>2</answer>.'
  assert [(text[a:b], part) for a, b, part in spans.mark(text)] == [
    ('<think>a <answer>1</answer></think>', 'thought'),
    ('<answer>2</answer>', 'answer'),
  ]
  assert [x.part for x in spans.mark(' <think>on and on')] == ['thought']
  assert spans.mark('') == []


# Tokens.


@pytest.fixture(scope='module')
def bpe(tmp_path_factory):
  words = ('<find>', '</find>', 'think', ' so six')
  path = checkpoints.tokenizer(tmp_path_factory.mktemp('bpe'), words=words)
  return tokenizer.HuggingFace(path)


def byte_lengths(words, ids):
  if isinstance(words, tokenizer.Embedded):
    return [
      1 if 9 <= i < 265 else len(piece)
      for i, piece in zip(ids, words.pieces(ids), strict=True)
    ]
  # Byte-level BPE spells each byte as one letter.
  return [
    len(piece) for piece in words._tokenizer.convert_ids_to_tokens(list(ids))
  ]


def starts(words, ids, text):
  """The character that holds each token's first byte."""
  data, out, at = text.encode(), [], 0
  for length in byte_lengths(words, ids):
    out.append(len(data[:at].decode(errors='ignore')))
    at += length
  assert at == len(data)
  return out


def random_text(r):
  letters = ['up', ' so six', '<find>', '</find>', 'think', 'é', '€', '😀', 'a']
  return ''.join(r.choices(letters, k=r.randint(0, 12)))


def random_intervals(r, text):
  at = sorted(r.sample(range(len(text) + 1), min(6, len(text) + 1)))
  return [
    spans.Interval(a, b, r.choice(['call', 'thought']))
    for a, b in zip(at[::2], at[1::2], strict=False)
  ]


@pytest.mark.parametrize('kind', ['embedded', 'bpe'])
def test_a_token_is_of_the_part_in_which_its_first_byte_stands(kind, bpe):
  words = {'embedded': WORDS, 'bpe': bpe}[kind]
  r, several = random.Random(0), 0
  for _ in range(300):
    text = random_text(r)
    ids = words.encode(text)
    intervals = random_intervals(r, text)
    parts = painted(text, intervals)
    want = [parts[at] for at in starts(words, ids, text)]
    assert spans.to_tokens(words, ids, intervals) == want
    several += max(byte_lengths(words, ids), default=0) > 1
  assert several > 100, 'no tokens of several characters'


@pytest.mark.parametrize('kind', ['embedded', 'bpe'])
def test_tokens_of_any_bytes_have_one_part_each_and_in_order(kind, bpe):
  words = {'embedded': WORDS, 'bpe': bpe}[kind]
  r = random.Random(1)
  for _ in range(200):
    ids = [r.randrange(words.vocab_size) for _ in range(r.randint(0, 20))]
    size = len(words.decode(ids))
    half = size // 2
    tiles = [spans.Interval(0, half, 'a'), spans.Interval(half, size, 'b')]
    parts = spans.to_tokens(words, ids, [x for x in tiles if x.start < x.end])
    assert len(parts) == len(ids)
    # Broken characters at the very end may begin behind it.
    assert ''.join(parts).replace('other', 'c') == ''.join(
      sorted(''.join(parts).replace('other', 'c'))
    )


def test_a_long_message_is_not_decoded_once_for_each_token():
  class Counting(tokenizer.Embedded):
    times = 0

    def decode(self, ids):
      self.times += 1
      return super().decode(ids)

  words, text = Counting(), 'a' * 2000
  parts = spans.to_tokens(
    words, words.encode(text), [spans.Interval(700, 900, 'call')]
  )
  assert parts.index('call') == 700
  assert parts.count('call') == 200
  assert words.times < 50
