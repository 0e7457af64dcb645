"""Bodies and their parts: one sentence for every mistake."""

import json

import pytest

from agentrl.gateway import request as lib
from agentrl.gateway.request import RefusedError
from tests import errors

DEEP = b'[' * 3000 + b']' * 3000


def nested(depth):
  return b'{"a":' * depth + b'1' + b'}' * depth


@pytest.mark.parametrize(
  ('raw', 'sentence'),
  [
    (b'{"a": ', 'JSON'),
    (b'\xff\xfe', 'JSON'),
    (b'[1]', 'JSON'),
    (b'{"a": NaN}', 'NaN'),
    (b'{"a": 1' + b'0' * 5000 + b'}', 'JSON'),
    (b'{"a": 1e999}', '1e999'),
    ('{"a": 1}'.encode('utf-16'), 'JSON'),
    (b'{"a": ' + DEEP + b'}', '64'),
    (b'[' * 200_000, '64'),
    (b'[' * 300_000, '262144'),
    (nested(65), '64'),
  ],
)
def test_a_body_that_cannot_be_used(raw, sentence):
  with errors.raises(RefusedError, sentence) as refused:
    lib.parse_body(raw)
  assert refused.value.status == 400


def test_a_body():
  assert lib.parse_body(nested(64))
  text = '{"a": "\\ud83d\\ude00 é"}'  # a pair is a character
  assert lib.parse_body(text.encode()) == {'a': '😀 é'}
  assert lib.parse_body(b'\xef\xbb\xbf{}') == {}


@pytest.mark.parametrize(
  ('name', 'kind', 'sentence'),
  [
    ('text', list, 'text'),
    ('flag', int, 'flag'),
    ('text', (bool, int), 'text'),
  ],
)
def test_a_field_of_another_type(name, kind, sentence):
  body = {'text': 'x', 'flag': True}
  with errors.raises(RefusedError, sentence):
    lib.field(body, name, kind, None)


def test_fields():
  assert lib.field({'a': None}, 'a', str, 'x') == 'x'
  assert lib.field({'a': ''}, 'a', str, 'x') == ''
  assert lib.objects({}, 'a') == []
  with errors.raises(RefusedError, 'a 1'):
    lib.objects({'a': [{}, 2]}, 'a')
  lib.refuse({'n': 1, 'x': None}, {'n': (1,), 'x': ()})
  with errors.raises(RefusedError, 'n 2') as refused:
    lib.refuse({'n': 2}, {'n': (1,)})
  assert refused.value.code == 'unsupported_parameter'
  assert lib.ignored({'a': 1, 'b': 2}, ('a',)) == ['b']


def test_texts():
  parts = [{'type': 'text', 'text': 'a'}, {'type': 'input_text', 'text': 'b'}]
  assert lib.text_of(parts, 'x') == 'ab'
  assert lib.text_of(None, 'x') == ''
  for content, sentence in (
    ([{'type': 'image_url'}], 'type image_url'),
    ([3], ''),
    ([{'type': 'text'}], 'text'),
    (3, ''),
  ):
    with errors.raises(RefusedError, sentence):
      lib.text_of(content, 'x')


def test_tools():
  tool = lib.tool_of('f', None, None, 'tools[0]')
  assert tool == ('f', '', {'type': 'object', 'properties': {}})
  for args in ((None, '', {}), ('a b', '', {}), ('f', 3, {}), ('f', '', [])):
    with errors.raises(RefusedError, 'tools[0]'):
      lib.tool_of(*args, 'tools[0]')
  with errors.raises(RefusedError, '2 1'):
    lib.tools_of([tool, tool])
  many = [tool._replace(name=f'f{i}') for i in range(lib.TOOLS + 1)]
  assert lib.tools_of(many[1:]) == many[1:]
  with errors.raises(RefusedError, '256'):
    lib.tools_of(many)


def test_calls_and_stops():
  use = lib.tool_use('c', 'f', '{"b": 1, "a": 2}', 'x')
  assert use == lib.tool_use('c', 'f', {'a': 2, 'b': 1}, 'x')
  assert json.loads(use.arguments) == {'a': 2, 'b': 1}
  assert lib.tool_use('c', 'f', '{', 'x').arguments == '{'
  with pytest.raises(RefusedError):
    lib.tool_use(None, 'f', '{}', 'x')
  assert lib.stops_of(None, 'stop') == []
  assert lib.stops_of('a', 'stop') == ['a']
  assert lib.stops_of(['a', ''], 'stop') == ['a']
  for stops in ([3], ['a'] * 17, ['a' * 257], 4):
    with errors.raises(RefusedError, 'stop 16'):
      lib.stops_of(stops, 'stop')
