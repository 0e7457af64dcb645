import dataclasses
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentrl.text import tool_calls
from agentrl.text.tool_calls.base import Call, Malformed
from tests import errors


@dataclasses.dataclass(frozen=True)
class Told:
  name: str
  description: str
  schema: dict[str, Any]


def told(name, /, **types):
  return Told(
    name,
    f'Does {name}.',
    {
      'type': 'object',
      'properties': {k: {'type': v} for k, v in types.items()},
      'required': list(types),
    },
  )


TOOLS = (
  told('search', query='string'),
  told('python', code='string'),
  told('add', numbers='array'),
)
SEARCH = Call('search', {'query': 'a b'})


def parse(name, text):
  return tool_calls.format_of(name).parse(text, TOOLS)


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
    (
      "[f(a=1, **{'from': 2, 'a b': [3]}, **{'class': None})]",
      [Call('f', {'a': 1, 'from': 2, 'a b': [3], 'class': None})],
    ),
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
    (
      '<tool_call>{"name": "f", "arguments": {"x": 1e999}}</tool_call>',
      ['1e999 is not a JSON number'],
    ),
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
    ('[f(x=1), 2]', ['Not a call: 2']),
    ('[f(x=1)][0]', ['must be a list']),
    ('[f(x=...)]', ['plain values']),
    ("[f(x=b'a')]", ['plain values']),
    ('[f(x={1, 2})]', ['plain values']),
    ('[f(x=set())]', ['plain values']),
    ('[f(x=(1, 2))]', ['plain values']),
    ('[f(x=1+2j)]', ['plain values']),
    ('[f(x=[1e999])]', ['plain values']),
    ("[f(x={'a': {1: 2}})]", ['plain values']),
    ('[f(**{1: 2})]', ['plain values']),
    ("[f(x=1, **{'x': 2})]", ['given twice']),
    ('[f(x=1, x=2)]', []),
    ('[f(x=1), 2(x=1)]', ['Not a call: 2(x=1)']),
    ('[f(x=1)] so', ['cannot be read']),
    ('[f(x=' + '(' * 10_000, ['cannot be read']),
    ('[f(x=' + '-' * 20_000 + '1)]', []),
    ('[f(x=' + '1+' * 20_000 + '1)]', []),
  ],
  'tagged': [
    ('<search>a', ['</search>']),
    ('<add>[1, </add>', ['JSON array', '[1,']),
    ('<add>1 2</add>', ['JSON array']),
    ('<add>[-1e999]</add>', ['JSON array']),
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
@example(found=[Call('f', {'from': 1, 'a b': None, '': {'é': 2.5}})])
def test_what_is_written_is_read_again(name, found):
  """parse(write(calls)) = calls."""
  if any(has_infinity(call.args) for call in found):
    return  # no number of JSON, and none that Python reads
  written = tool_calls.format_of(name).write(found)
  assert parse(name, written) == found
  if name == 'hermes':
    thought = '<think>hm <tool_call></think>'
    assert parse(name, f'{thought}{written} done') == found


# Whatever a JSON object may hold, under whatever names.
anything = st.dictionaries(
  words
  | st.sampled_from(['from', 'class', 'a b', 'ﬁ', 'None', 'é', '__debug__']),
  values,
  max_size=3,
)
titles = words | st.sampled_from(
  ['f', 'a.b', 'x-y', 'import', 'think', 'a b', '', '</think>', 'search', 'add']
)


def tagged_tools(found):
  """Tools that such calls fit, where the format has any."""
  kinds = {str: 'string', list: 'array', dict: 'object', bool: 'boolean'}
  return [
    told(
      call.name,
      **{k: kinds.get(type(v), 'number') for k, v in call.args.items()},
    )
    for call in {call.name: call for call in found}.values()
  ]


@pytest.mark.parametrize('name', tool_calls.FORMATS)
@settings(max_examples=60, deadline=None)
@given(found=st.lists(st.builds(Call, titles, anything), max_size=2))
@example(found=[Call('f', {'from': 1, 'class': [2], 'a b': {'c d': None}})])
@example(found=[Call('f', {'ﬁ': 1, 'fi': 2})])
@example(found=[Call('\n', {'': None})])
@example(found=[Call('search', {'query': 'what is </think>?'})])
@example(found=[Call('add', {'numbers': ['</add></think>']})])
@example(found=[Call('think', {'x': 'a'}), Call('f', {'x': ' a'})])
def test_any_calls_are_read_as_written_or_refused(name, found):
  form = tool_calls.format_of(name)
  try:
    written = form.write(found)
  except ValueError as error:
    refusal = str(error)
  else:
    refusal = ''
  if refusal:
    assert '\n' not in refusal
    assert any(repr(call.name) in refusal for call in found)
    return
  tools = tagged_tools(found) if name == 'tagged' else ()
  assert repr(form.parse(written, tools)) == repr(found) or (
    name == 'llama_pythonic' and form.parse(written, tools) == found
  )  # which moves names that Python does not take behind the others


@pytest.mark.parametrize('kind', [None, ['string', 'null']])
def test_an_argument_without_one_type_is_refused_in_one_line(kind):
  with errors.raises(ValueError, '\\n'):
    tool_calls.format_of('tagged').parse(
      '<f>x</f>', [told('f', **{'\n': kind})]
    )


@pytest.mark.parametrize('name', tool_calls.FORMATS)
@pytest.mark.parametrize(
  'value',
  [
    ...,
    b'a',
    {1, 2},
    (1, 2),
    1j,
    float('inf'),
    [float('nan')],
    {1: 2},
    pytest.param(10**5000, id='large'),
  ],
)
def test_what_json_does_not_have_is_not_written(name, value):
  with errors.raises(ValueError, 'f JSON'):
    tool_calls.format_of(name).write([Call('f', {'x': value})])


JOINS = {'hermes': '\n', 'llama_json': ';', 'tagged': ' '}


def written(name, query):
  return tool_calls.format_of(name).write([Call('search', {'query': query})])


@pytest.mark.parametrize('name', tool_calls.FORMATS)
def test_a_call_that_its_own_argument_hides_is_a_fault(name):
  good = written(name, 'a b')
  text = good.replace('a b', 'a </think> b')
  (found,) = parse(name, text)
  assert isinstance(found, Malformed)
  assert '</think>' in found.sentence
  # A thought before it, ended as thoughts are, hides nothing.
  assert all(
    isinstance(x, Call) for x in parse(name, f'<think>x</think>{text}')
  )
  # Not what stands before it either; what comes behind is made.
  if join := JOINS.get(name):
    hidden = parse(name, join.join([good, text, good]))
    assert hidden == [found, found, SEARCH]


@pytest.mark.parametrize('name', tool_calls.FORMATS)
@pytest.mark.parametrize('opened', ['<think>', ''])
def test_what_is_thought_is_no_fault(name, opened):
  """Where the prompt begins the thought, its own tag is not in the message."""
  good = written(name, 'a b')
  for thought in ('hm', good, f'say {good}', good.partition(' b')[0]):
    assert parse(name, f'{opened}{thought}</think>{good}') == [SEARCH]
  assert parse(name, f'{opened}{good}</think>no') == []


def test_names_that_a_format_cannot_take_are_told_with_the_tools():
  dashed, thinks = told('x-y', a='string'), told('think', a='string')
  wide = dataclasses.replace(
    told('wide', a='string'),
    schema={'properties': {'a': {}}, 'required': ['a']},
  )
  for name, tool in (
    ('llama_pythonic', dashed),
    ('tagged', thinks),
    ('tagged', wide),
  ):
    form = tool_calls.format_of(name)
    for use in (form.teach, lambda tools, form=form: form.parse('', tools)):
      with errors.raises(ValueError, f'{tool.name}'):
        use([tool])
  odd = told('f', **{'from': 'string'})
  taught = tool_calls.format_of('llama_pythonic').teach([odd])
  assert "Write from as **{'from': ...}." in taught


@settings(max_examples=30, deadline=None)
@given(text=words.map(str.strip).filter(lambda x: '</' not in x))
def test_a_tag_holds_its_argument_as_it_is(text):
  found = [Call('search', {'query': text}), Call('add', {'numbers': [text]})]
  assert parse('tagged', tool_calls.format_of('tagged').write(found)) == found


@pytest.mark.parametrize('name', tool_calls.FORMATS)
@settings(max_examples=50, deadline=None)
@given(
  text=st.lists(
    st.sampled_from(
      [
        '<tool_call>',
        '</tool_call>',
        '{',
        '}',
        '"name"',
        ':',
        '"a"',
        '[',
        ']',
        'f(',
        ')',
        'x=',
        '1',
        ',',
        ';',
        '<search>',
        '</search>',
        '</think>',
        '\\',
        '\x00',
        '\udc80',
        ' ',
        '<|python_tag|>',
      ]
    ),
    max_size=12,
  ).map(''.join)
)
def test_no_text_raises(name, text):
  for call in parse(name, text):
    assert isinstance(call, Call | Malformed)


@pytest.mark.parametrize('name', tool_calls.FORMATS)
def test_tools_are_taught_and_answers_written(name):
  form = tool_calls.format_of(name)
  taught = form.teach(TOOLS)
  answered = form.answer([('search', 'one "line"'), ('add', '3')])
  for tool in TOOLS:
    assert tool.name in taught
    assert tool.description in taught
  assert answered.index('one ') < answered.index('3')
  assert form.role in ('user', 'ipython')


def test_answers_and_schemas_stand_as_the_models_know_them():
  hermes, llama = (
    tool_calls.format_of('hermes'),
    tool_calls.format_of('llama_json'),
  )
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
  with errors.raises(ValueError, 'xml'):
    tool_calls.format_of('xml')
  two = told('two', a='string', b='string')
  with errors.raises(ValueError, 'two a b'):
    tool_calls.format_of('tagged').parse('', [two])
