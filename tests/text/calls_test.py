import dataclasses
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentrl.text import calls
from agentrl.text.call_base import Call, Malformed


@dataclasses.dataclass(frozen=True)
class Told:
  name: str
  description: str
  schema: dict[str, Any]


def told(name, **types):
  return Told(
    name,
    f'Does {name}.',
    {
      'type': 'object',
      'properties': {k: {'type': v} for k, v in types.items()},
      'required': list(types),
    },
  )


TOOLS = (told('search', query='string'), told('python', code='string'),
         told('add', numbers='array'))  # fmt: skip
SEARCH = Call('search', {'query': 'a b'})


def parse(name, text):
  return calls.format_of(name).parse(text, TOOLS)


GOOD = {
  'hermes': [
    ('nothing is called', []),
    (
      '<tool_call>\n{"name": "search", "arguments": {"query": "a b"}}\n'
      '</tool_call>',
      [SEARCH],
    ),
    (
      'I look.<tool_call>{"name":"search","arguments":{"query":"a b"}}'
      '</tool_call> and <tool_call>{"arguments": {}, "name": "x.y"}'
      '</tool_call>',
      [SEARCH, Call('x.y', {})],
    ),
    (
      '<think>maybe <tool_call>{"name"...</think><tool_call>{"name": "python",'
      ' "arguments": {"code": "print(\'</tool_call>\')"}}</tool_call>',
      [Call('python', {'code': "print('</tool_call>')"})],
    ),
    ('<think><tool_call>{"name": "search"', []),
    ('search({"query": 1})', []),
  ],
  'llama_json': [
    ('The answer is {"name": 1}', []),
    ('{"name": "search", "parameters": {"query": "a b"}}', [SEARCH]),
    (
      '<|python_tag|>{"name": "search", "parameters": {"query": "a b"}};\n'
      '{"name": "add", "parameters": {"numbers": [1, ";"]}};',
      [SEARCH, Call('add', {'numbers': [1, ';']})],
    ),
  ],
  'llama_pythonic': [
    ('[1, 2, 3]', []),
    ('[see above]', []),
    ('no [call(x=1)]', []),
    ("[search(query='a b')]", [SEARCH]),
    (
      "<|python_start|>[search(query='a b'), m.add(numbers=[1, -2.5, {'a':"
      ' None}])]<|python_end|>',
      [SEARCH, Call('m.add', {'numbers': [1, -2.5, {'a': None}]})],
    ),
    ('[now()]', [Call('now', {})]),
  ],
  'tagged': [
    ('nothing <b>bold</b>', []),
    ('so <search> a b\n</search> and', [SEARCH]),
    (
      '<think><search>no</search></think>\n<python>\nif x < 1:\n  y</python>'
      '<add>[1, 2]</add>',
      [
        Call('python', {'code': 'if x < 1:\n  y'}),
        Call('add', {'numbers': [1, 2]}),
      ],
    ),
    (
      '<python>"<search>"</python>',
      [Call('python', {'code': '"<search>"'})],
    ),
  ],
}
BAD = {
  'hermes': [
    ('<tool_call>{"name": "search"</tool_call>', ['not valid JSON', 'name']),
    ('<tool_call>{"name": "f", "arguments": {"x": NaN}}</tool_call>', ['NaN']),
    ('<tool_call>{"name": "f", "arguments": "x"}</tool_call>', ['an object']),
    ('<tool_call>{"name": "f"}</tool_call>', ['"arguments"']),
    ('<tool_call>[]</tool_call>', ['a JSON object']),
    ('<tool_call></tool_call>', ['not valid JSON']),
    ('<tool_call>{"name": "f", "arguments": {}}', ['end each one with']),
    ('<tool_call>{"name": "f", "arguments": {}} x</tool_call>', ['is more: x']),
    ('<tool_call>' + '[' * 20_000, ['nested too deeply']),
    ('<tool_call>{"name": "f", "arguments": {"x": 1' + '0' * 5000 + '}}', []),
  ],
  'llama_json': [
    ('{"name": "f", "arguments": {}}', ['"parameters"']),
    ('{"name": "f", "parameters": {}} so', ['nothing but calls']),
    ('<|python_tag|>print(1)', ['not valid JSON']),
  ],
  'llama_pythonic': [
    ('[f(x=1]', ['cannot be read']),
    ('[f(1)]', ['must be named', 'f(1)']),
    ('[f(**x)]', ['must be named']),
    ('[f(x=g())]', ['plain values']),
    ('[f(x=1), 2]', ['no call: 2']),
    ('[f(x=1)][0]', ['more than a list']),
    ('[f(x=1)] so', ['cannot be read']),
    ('[f(x=' + '(' * 10_000, ['cannot be read']),
    ('[f(x=' + '-' * 20_000 + '1)]', []),
    ('[f(x=' + '1+' * 20_000 + '1)]', []),
  ],
  'tagged': [
    ('<search>a', ['</search>']),
    ('<add>[1, </add>', ['JSON array', '[1,']),
    ('<add>1 2</add>', ['JSON array']),
  ],
}


def cases(table):
  return [(name, *case) for name, found in table.items() for case in found]


@pytest.mark.parametrize(('name', 'text', 'want'), cases(GOOD))
def test_calls_are_read(name, text, want):
  assert parse(name, text) == want


@pytest.mark.parametrize(('name', 'text', 'words'), cases(BAD))
def test_what_is_no_call_becomes_a_sentence_to_learn_from(name, text, words):
  found = [x for x in parse(name, text) if isinstance(x, Malformed)]
  assert len(found) == 1
  for word in words:
    assert word in found[0].sentence
  assert len(found[0].sentence) < 600, 'it repeats too much'


def test_a_bad_call_takes_no_good_one_with_it():
  good = '<tool_call>{"name": "search", "arguments": {"query": "a b"}}'
  text = f'{good}</tool_call><tool_call>{{</tool_call>{good}</tool_call>'
  found = parse('hermes', text)
  assert [type(x) for x in found] == [Call, Malformed, Call]
  assert found[0] == found[2] == SEARCH


words = st.text(st.characters(codec='utf-8'), max_size=20)
numbers = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, width=32)
leaves = st.none() | st.booleans() | numbers | words
values = st.recursive(
  leaves,
  lambda inner: (
    st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3)
  ),
  max_leaves=6,
)
names = st.from_regex(r'[a-z_][a-z0-9_]{0,8}', fullmatch=True).filter(
  lambda x: x.isidentifier() and not __import__('keyword').iskeyword(x)
)
several = st.lists(
  st.builds(Call, names, st.dictionaries(names, values, max_size=3)),
  min_size=1,
  max_size=3,
)


def has_infinity(value) -> bool:
  return 'inf' in repr(value) and 'Infinity' in json.dumps(value)


@pytest.mark.parametrize('name', ['hermes', 'llama_json', 'llama_pythonic'])
@settings(max_examples=30, deadline=None)
@given(found=several)
@example(found=[Call('f', {'x': '</think></tool_call>; <|python_end|>'})])
def test_what_is_written_is_read_again(name, found):
  """parse(write(calls)) = calls."""
  if any(has_infinity(call.args) for call in found):
    return  # no number of JSON, and none that Python reads
  written = calls.format_of(name).write(found)
  assert parse(name, written) == found
  if name == 'hermes':
    thought = '<think>hm <tool_call></think>'
    assert parse(name, f'{thought}{written} done') == found


@settings(max_examples=30, deadline=None)
@given(text=words.map(str.strip).filter(lambda x: '</' not in x))
def test_a_tag_holds_its_argument_as_it_is(text):
  found = [Call('search', {'query': text}), Call('add', {'numbers': [text]})]
  assert parse('tagged', calls.format_of('tagged').write(found)) == found


@pytest.mark.parametrize('name', calls.FORMATS)
@settings(max_examples=50, deadline=None)
@given(
  text=st.lists(
    st.sampled_from(
      ['<tool_call>', '</tool_call>', '{', '}', '"name"', ':', '"a"', '[', ']',
       'f(', ')', 'x=', '1', ',', ';', '<search>', '</search>', '</think>',
       '\\', '\x00', '\udc80', ' ', '<|python_tag|>']
    ),
    max_size=12,
  ).map(''.join)
)  # fmt: skip
def test_no_text_raises(name, text):
  for call in parse(name, text):
    assert isinstance(call, Call | Malformed)


@pytest.mark.parametrize('name', calls.FORMATS)
def test_tools_are_taught_and_answers_written(name):
  form = calls.format_of(name)
  taught = form.teach(TOOLS)
  answered = form.answer([('search', 'one "line"'), ('add', '3')])
  for tool in TOOLS:
    assert tool.name in taught
    assert tool.description in taught
  assert answered.index('one ') < answered.index('3')
  assert form.role in ('user', 'ipython')


def test_answers_and_schemas_stand_as_the_models_know_them():
  hermes, llama = calls.format_of('hermes'), calls.format_of('llama_json')
  assert hermes.answer([('f', 'a'), ('g', 'b')]) == (
    '<tool_response>\na\n</tool_response>\n<tool_response>\nb\n</tool_response>'
  )
  line = hermes.teach(TOOLS).split('<tools>\n')[1].splitlines()[0]
  assert json.loads(line)['function']['parameters'] == TOOLS[0].schema
  assert json.loads(llama.answer([('f', 'a\nb')])) == {
    'name': 'f',
    'output': 'a\nb',
  }


def test_mistakes_are_named():
  with pytest.raises(ValueError, match='xml'):
    calls.format_of('xml')
  two = told('two', a='string', b='string')
  with pytest.raises(ValueError, match=r"'two'.*\['a', 'b'\]"):
    calls.format_of('tagged').parse('', [two])
