"""Sentences on values that do not fit."""

import jsonschema
import pytest
from jsonschema.exceptions import best_match

from agentrl.tool import schema_sentences


def said(value, schema):
  errors = jsonschema.Draft202012Validator(schema).iter_errors(value)
  return schema_sentences.sentence(best_match(errors))


@pytest.mark.parametrize(
  ('value', 'schema', 'parts'),
  [
    (1, {'type': ['string', 'null']}, ['string or null', '1']),
    (1, {'anyOf': [{'type': 'string'}, {'type': 'null'}]}, ['string', 'null']),
    ('a', {'oneOf': [{'const': 1}, {'minLength': 2}]}, ['1', '2', "'a'"]),
    ([1], {'maxItems': 0}, ['0', '[1]']),
    ({'a': {}}, {'properties': {'a': {'required': ['b']}}}, ['a.b']),
    ({'a': 1}, {'dependentRequired': {'a': ['b', 'c']}}, ['b, c', 'beside a']),
    ([[0, 'x']], {'items': {'items': {'type': 'integer'}}}, ['[0][1]', "'x'"]),
    ('{0}', {'const': '{1}'}, ['{0}', '{1}']),
    (1, {'not': {'type': 'integer'}}, ['integer', '1']),
    (1, False, ['must be left out']),
  ],
)
def test_place_rule_and_value_are_named(value, schema, parts):
  text = said(value, schema)
  assert all(part in text for part in parts)
  assert text.endswith('.')


def test_a_sentence_is_one_line_of_bounded_length():
  value = {'x\ny' * 1000: 'a\n' * 10**6}
  schema = {'additionalProperties': {'enum': [str(x) for x in range(10**4)]}}
  text = said(value, schema)
  assert '\n' not in text
  assert len(text) < 700


def test_what_is_taken_is_named_where_it_is_known():
  known = schema_sentences.takes('it', {'properties': {'a': {}, 'b': {}}}, 'c')
  assert {'a,', 'b,', 'c.'} <= set(known.split())
  assert 'nothing' in schema_sentences.takes('it', {}, 'c')
  elsewhere = schema_sentences.takes('it', {'allOf': [{}]}, 'c')
  assert 'nothing' not in elsewhere
  assert 'c' in elsewhere
