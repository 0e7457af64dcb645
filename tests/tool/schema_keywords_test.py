"""Keywords that end, and numbers as JSON has them."""

import time

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.tool import schema_keywords as keywords

DRAFTS = (
  jsonschema.Draft4Validator,
  jsonschema.Draft7Validator,
  jsonschema.Draft201909Validator,
  jsonschema.Draft202012Validator,
)


def test_a_pattern_has_what_is_left_of_the_time():
  assert keywords.matches('b$', 'ab')
  assert not keywords.matches('^b', 'ab')
  with keywords.limited(0.1), pytest.raises(TimeoutError):
    keywords.matches('^(a|a)*$', 'a' * 60 + '!')
  with keywords.limited(0.01):
    end = time.thread_time() + 0.02
    while time.thread_time() < end:
      pass
    with pytest.raises(TimeoutError):
      keywords.matches('a', 'a')
  assert keywords.matches('a', 'a')  # the limit has ended with its block


def test_time_that_others_take_does_not_count():
  """Many calls at once on a busy machine are all answered as one would be."""
  with keywords.limited(0.05):
    time.sleep(0.1)
    assert keywords.matches('a', 'a')


@pytest.mark.parametrize(
  ('pattern', 'good', 'bad'),
  [
    (r'^[\u{1F600}-\u{1F64F}]$', '\U0001f600', 'a'),
    (r'^\u{61}[^]$', 'a\n', 'b\n'),
    (r'^[]|b$', 'b', 'a'),
    (r'^[\cA-\cZ]$', '\n', 'A'),
    (r'^(?<y>\d)-\k<y>$', '1-1', '1-2'),
    (r'^\\cA[^]$', r'\cA!', '\x01!'),
    (r'^\[\][^]$', '[]a', '[]'),
  ],
)
def test_patterns_are_of_ecmascript_too(pattern, good, bad):
  assert keywords.matches(pattern, good)
  assert not keywords.matches(pattern, bad)


@pytest.mark.parametrize('draft', DRAFTS)
def test_rules_of_properties_are_about_objects_alone(draft):
  rules = {'patternProperties': {'': False}, 'propertyNames': False}
  checked = keywords.guarded(draft)(rules)
  for value in (['a'], 'a', 1, None):
    assert checked.is_valid(value)
  assert not checked.is_valid({'a': 1})


@pytest.mark.parametrize('draft', DRAFTS)
def test_no_draft_hangs(draft):
  checked = keywords.guarded(draft)({'pattern': '^(a|a)*$'})
  with keywords.limited(0.1), pytest.raises(TimeoutError):
    checked.is_valid('a' * 60 + '!')


@pytest.mark.parametrize(
  ('value', 'want'),
  [
    (5.0, 5),
    (-0.5, -0.5),
    (True, True),
    ('5.0', '5.0'),
    (None, None),
    ([1.0, {'a': 2.0}], [1, {'a': 2}]),
    (1e300, 1e300),
    (float('inf'), float('inf')),
  ],
)
def test_a_whole_number_is_an_integer(value, want):
  assert repr(keywords.whole(value)) == repr(want)


@given(st.integers(-(10**6), 10**6), st.integers(1, 10**4), st.integers(0, 6))
def test_a_multiple_is_one_in_decimals(count, step, digits):
  unit = float(f'{step}e-{digits}')
  value = float(f'{count * step}e-{digits}')
  checked = keywords.guarded(DRAFTS[-1])({'multipleOf': unit})
  assert checked.is_valid(value)
  assert checked.is_valid(value + unit / 2) is False


@pytest.mark.parametrize(
  ('schema', 'known'),
  [
    ({}, set()),
    ({'properties': {'a': {}, 'z': {}}}, {'a'}),
    ({'patternProperties': {'b': {}}}, {'b', 'ab'}),
    ({'additionalProperties': {}}, {'a', 'b', 'ab'}),
    (
      {'anyOf': [{'properties': {'a': {}}}, {'properties': {'b': False}}]},
      {'a'},
    ),
    ({'if': {'required': ['a']}, 'then': {'properties': {'b': {}}}}, {'b'}),
    ({'if': {'required': ['z']}, 'else': {'properties': {'b': {}}}}, {'b'}),
    ({'dependentSchemas': {'a': {'properties': {'b': {}}}}}, {'b'}),
    ({'dependentSchemas': {'z': {'properties': {'b': {}}}}}, set()),
    ({'$ref': '#/$defs/x', '$defs': {'x': {'properties': {'b': {}}}}}, {'b'}),
    ({'not': {'properties': {'b': {}}}}, set()),
  ],
)
def test_what_a_schema_speaks_of(schema, known):
  checked = keywords.guarded(DRAFTS[-1])(schema)
  assert keywords.evaluated(checked, {'a': 1, 'b': 2, 'ab': 3}) == known
