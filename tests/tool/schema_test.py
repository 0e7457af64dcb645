"""Whether arguments fit a schema, in one sentence."""

import functools
import time

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.tool import schema
from agentrl.tool import schema_keywords as keywords
from tests import errors

SEARCH = schema.schema(
  ['query'],
  query='string',
  n='integer',
  weight='number',
  exact='boolean',
  kind={'type': 'string', 'enum': ['web', 'book']},
  ids={'type': 'array', 'items': {'type': 'integer'}},
  near={'type': ['string', 'null']},
)


@pytest.mark.parametrize(
  'args',
  [
    {'query': 'a'},
    {'query': 'a', 'n': 3, 'weight': 3, 'exact': True, 'kind': 'web'},
    {'query': 'a', 'ids': [1, 2], 'near': None, 'weight': 0.5},
  ],
)
def test_what_fits_has_no_mismatch(args):
  assert schema.mismatch(args, SEARCH) == ''


@pytest.mark.parametrize(
  ('args', 'sentence'),
  [
    ({}, 'query is missing.'),
    ({'query': 'a', 'm': 1}, 'and not m.'),
    ({'query': 3}, 'query must be of type string, and 3 is not.'),
    ({'query': 'a', 'n': True}, 'n must be of type integer, and True is not.'),
    ({'query': 'a', 'exact': 1}, 'exact must be of type boolean'),
    ({'query': 'a', 'kind': 'film'}, "kind must be one of ['web', 'book']"),
    ({'query': 'a', 'ids': [1, 'x']}, 'ids[1] must be of type integer'),
    ({'query': 'a', 'near': 2}, 'near must be of type string or null'),
  ],
)
def test_what_does_not_fit_is_one_sentence(args, sentence):
  mismatch = schema.mismatch(args, SEARCH)
  assert sentence in mismatch
  assert '\n' not in mismatch


def of(**properties):
  return {'type': 'object', 'properties': properties}


A, B = (
  of(a={'type': 'integer'}) | {'required': ['a']},
  of(b={'type': 'string'}) | {'required': ['b']},
)
TREE = {
  '$ref': '#/$defs/node',
  '$defs': {
    'node': of(
      value={'type': 'integer'},
      parts={'type': 'array', 'items': {'$ref': '#/$defs/node'}},
    )
  },
}
DRAFT_7 = {'$schema': 'http://json-schema.org/draft-07/schema#'}
PAIR = [{'type': 'integer'}, {'type': 'string'}]


@pytest.mark.parametrize(
  ('wanted', 'good', 'bad'),
  [
    (of(x=True), {'x': [None]}, {'y': 1}),
    (of(x=False), {}, {'x': 1}),
    (of(x={}) | {'additionalProperties': {}}, {'x': 1, 'y': 2}, None),
    (
      of() | {'additionalProperties': {'type': 'integer'}},
      {'y': 2},
      {'y': 'a'},
    ),
    (of(x={'type': 'integer'}), {'x': 5.0}, {'x': 5.5}),
    (of(x={'type': 'integer'}), {'x': 1e300}, {'x': '5'}),
    (of(x={'prefixItems': PAIR}), {'x': [1, 'a', 2]}, {'x': [1, 2]}),
    (
      of(x={'prefixItems': PAIR, 'items': False}),
      {'x': [1]},
      {'x': [1, 'a', 2]},
    ),
    (of(x={'items': PAIR}), {'x': [1, 'a', 2]}, {'x': [1, 2]}),
    (of(x={'items': PAIR}) | DRAFT_7, {'x': [1, 'a']}, {'x': ['a']}),
    (of(x={'items': True}), {'x': [1]}, None),
    ({'anyOf': [A, B]}, {'b': 'x'}, {'b': 1}),
    ({'anyOf': [A, B]}, {'a': 1, 'b': 'x'}, {}),
    ({'anyOf': [A, B]}, {'a': 1}, {'a': 1, 'c': 1}),
    ({'oneOf': [A, B]}, {'a': 1}, {'a': 1, 'b': 'x'}),
    ({'allOf': [A, B]}, {'a': 1, 'b': 'x'}, {'a': 1}),
    ({'$ref': '#/$defs/a', '$defs': {'a': A}}, {'a': 1}, {'a': 'x'}),
    ({'$ref': '#/$defs/a', '$defs': {'a': A}}, {'a': 1}, {'a': 1, 'c': 1}),
    (
      DRAFT_7 | {'$ref': '#/definitions/a', 'definitions': {'a': A}},
      {'a': 1},
      {'a': 1, 'c': 1},
    ),
    (TREE, {'parts': [{'value': 1}]}, {'parts': [{'value': 'x'}]}),
    (of(x={'type': 'string', 'nullable': True}), {'x': None}, {'x': 1}),
    (of(x={'type': 'string'}), {'x': 'a'}, {'x': None}),
    (of(x={'anyOf': [*PAIR, {'type': 'null'}]}), {'x': None}, {'x': 0.5}),
    (of(x={'enum': [1, 'a', None]}), {'x': None}, {'x': True}),
    (of(x={'enum': [True]}), {'x': True}, {'x': 1}),
    (of(x={'enum': [1]}), {'x': 1.0}, {'x': '1'}),
    (of(x={'const': [1]}), {'x': [1.0]}, {'x': [True]}),
    (of(x={'const': False}), {'x': False}, {'x': 0}),
    ({'patternProperties': {'^x': PAIR[1]}}, {'xa': 'b'}, {'xa': 1}),
    ({'patternProperties': {'^x': PAIR[1]}}, {'xa': 'b'}, {'y': 'b'}),
    (
      of(a={}, b={}) | {'dependentRequired': {'a': ['b']}},
      {'a': 1, 'b': 1},
      {'a': 1},
    ),
    (
      of(a={}, b={}) | DRAFT_7 | {'dependencies': {'a': ['b']}},
      {'b': 1},
      {'a': 1},
    ),
    (
      {'allOf': [A], **of(b={}), 'unevaluatedProperties': False},
      {'a': 1, 'b': 1},
      {'a': 1, 'c': 1},
    ),
    (
      {'allOf': [A], 'unevaluatedProperties': PAIR[1]},
      {'a': 1, 'c': 'x'},
      {'a': 1, 'c': 1},
    ),
    (
      of(k={}) | {'if': of(k={'const': 1}), 'then': A, 'else': B},
      {'k': 1, 'a': 1},
      {'k': 2, 'a': 1},
    ),
    (of(p={'multipleOf': 0.01}), {'p': 19.99}, {'p': 19.995}),
    (of(x={'type': 'string', 'format': 'date'}), {'x': 'no date'}, None),
    (of(x={'pattern': r'^\p{L}+\/$'}), {'x': 'é/'}, {'x': '1/'}),
    (of(x={'uniqueItems': True}), {'x': [1, True, '1']}, {'x': [1, 1.0]}),
    (
      of(x={'propertyNames': {'maxLength': 1}}),
      {'x': {'a': 1}},
      {'x': {'ab': 1}},
    ),
    (of(x={'contains': PAIR[1]}), {'x': [1, 'a']}, {'x': [1]}),
    (of(x={'not': PAIR[1]}), {'x': 1}, {'x': 'a'}),
    (of(**{'$ref': PAIR[1]}), {'$ref': 'a'}, {'$ref': 1}),
    (of(x={'enum': [{'$ref': 'http://a'}]}), {'x': {'$ref': 'http://a'}}, None),
    (
      of(x={'minimum': 0, 'exclusiveMinimum': True}),
      {'x': 0.5},
      {'x': 0},
    ),
    (
      of(x={'items': {'maximum': 9, 'exclusiveMaximum': False}}),
      {'x': [9]},
      {'x': [10]},
    ),
    (of(exclusiveMinimum=True), {'exclusiveMinimum': 1}, {'minimum': 1}),
    (
      of(x={'items': PAIR}) | {'$schema': 'https://a.org/draft-07/schema#'},
      {'x': [1, 'a', 2]},
      {'x': [1, 2]},
    ),
    (True, {'x': 1}, None),
    (False, None, {}),
  ],
)
def test_the_standard_decides(wanted, good, bad):
  if good is not None:
    assert schema.mismatch(good, wanted) == ''
  if bad is not None:
    said = schema.mismatch(bad, wanted)
    assert said.endswith('.')
    assert '\n' not in said


@pytest.mark.parametrize(
  ('wanted', 'value', 'names'),
  [
    (of(x={'prefixItems': PAIR}), {'x': [1, 2]}, ['x[1]', 'string', '2']),
    (of(x=of(y=of(z=PAIR[0]))), {'x': {'y': {'z': 'q'}}}, ['x.y.z', "'q'"]),
    (of(x={'minimum': 3}), {'x': 2}, ['x', 'at least 3', '2']),
    (of(x={'pattern': '^b'}), {'x': 'a'}, ['x', '^b', "'a'"]),
    (of(x={'enum': ['{0}', 2]}), {'x': 'a'}, ['x', '{0}', "'a'"]),
    (of(x=False), {'x': 1}, ['x']),
    (of(x={'required': ['y']}), {'x': {}}, ['x.y', 'missing']),
    ({'anyOf': [A, B]}, {}, ['a', 'b', 'missing']),
    (of(x={'maxLength': 2}), {'x': 'long' * 10**5}, ['x', '2']),
  ],
)
def test_a_sentence_names_the_place_the_rule_and_the_value(
  wanted, value, names
):
  said = schema.mismatch(value, wanted)
  assert all(name in said for name in names)
  assert len(said) < 600


@pytest.mark.parametrize(
  ('faulty', 'name'),
  [
    ({'type': 'str'}, 'type'),
    ({'type': ['string', 'text']}, 'type'),
    ({'required': 'a'}, 'required'),
    ({'properties': []}, 'properties'),
    (of(a=5), 'properties.a'),
    (of(a=None), 'properties.a'),
    (of(a={'required': True}), 'properties.a.required'),
    (of(a={'prefixItems': 5}), 'prefixItems'),
    (of(a={'pattern': '('}), 'pattern'),
    ({'patternProperties': {'[': {}}}, '['),
    ({'minimum': 'a'}, 'minimum'),
    ({'$defs': {'a': {'type': 'x'}}}, '$defs.a.type'),
    ({'$schema': 5}, '$schema'),
    ({'$ref': '#/nothing'}, '#/nothing'),
    ({'$ref': '#'}, '$ref'),
    ({'$ref': '#/type', 'type': 'object'}, '#/type'),
    (of(a={'$ref': 'http://localhost:9/a.json'}), 'http://localhost:9/a.json'),
    (of(a={'$ref': 'file:///etc/passwd'}), 'file:///etc/passwd'),
    ({'$ref': '#/x/a', 'x': {'a': {'type': 'str'}}}, '#/x/a'),
    (
      {'$ref': '#/$defs/a', '$defs': {'a': {'$ref': '#/$defs/a'}}},
      '#/$defs/a',
    ),
    ([], '[]'),
    (None, 'None'),
    ({'const': float('nan')}, 'JSON'),
    ({'enum': {1, 2}}, 'JSON'),
  ],
)
def test_a_faulty_schema_is_refused_in_a_sentence(faulty, name):
  with pytest.raises(ValueError) as caught:
    schema.check(faulty)
  assert name in str(caught.value)
  assert '\n' not in str(caught.value)
  with pytest.raises(ValueError):
    schema.mismatch({}, faulty)


DRAFTS = [
  *(f'http://json-schema.org/draft-0{n}/schema#' for n in (3, 4, 6, 7)),
  'https://json-schema.org/draft/2019-09/schema',
  'https://json-schema.org/draft/2020-12/schema',
]
FOR_READERS = {
  'title': None,
  'description': None,
  'examples': 'a',
  'format': 3,
  'deprecated': 'since 2',
  'readOnly': 0,
}


@pytest.mark.parametrize('draft', DRAFTS)
@pytest.mark.parametrize('inner', [lambda x: x, lambda x: {'items': x}])
def test_what_is_for_readers_may_be_anything(draft, inner):
  """As programs write it that know of no title, or of one example."""
  wanted = of(x=inner({'type': 'string', **FOR_READERS})) | {'$schema': draft}
  schema.check(wanted | FOR_READERS)
  assert schema.mismatch({'x': 5 if inner(0) == 0 else [5]}, wanted)
  faulty = of(x=inner({'type': 5, **FOR_READERS})) | {'$schema': draft}
  with pytest.raises(ValueError):
    schema.check(faulty)
  with errors.raises(ValueError, 'title'):
    schema.check(of(title=7) | {'$schema': draft})


@pytest.mark.parametrize('keyword', ['if', 'not', 'then', 'contains'])
def test_a_schema_within_itself_ends_in_a_sentence(keyword):
  """At whatever depth of calls it is met."""
  wanted = {
    keyword: {'$ref': '#'},
    **({'if': True} if keyword == 'then' else {}),
  }

  def below(depth):
    if depth:
      return below(depth - 1)
    return schema.mismatch({'x': [1]}, wanted)

  for depth in range(30):
    assert below(depth)


def test_types_of_draft_3_may_be_schemas():
  wanted = of(x={'type': ['string', {'enum': [1]}]}) | {'$schema': DRAFTS[0]}
  assert schema.mismatch({'x': 'a'}, wanted) == ''
  assert schema.mismatch({'x': 1}, wanted) == ''
  assert 'x' in schema.mismatch({'x': 2}, wanted)


def test_a_property_of_a_faulty_schema_is_refused_where_it_is_written():
  with errors.raises(ValueError, 'properties.n.type'):
    schema.schema(n='int')


def test_a_schema_of_any_depth_is_checked_or_refused():
  deep: dict = {}
  for _ in range(900):
    deep = {'items': deep}
  with pytest.raises(ValueError):
    schema.check(deep)
  value: list = []
  for _ in range(400):
    value = [value]
  tree = {'$defs': {'a': {'items': {'$ref': '#/$defs/a'}}}}
  said = schema.mismatch({'x': value}, of(x={'$ref': '#/$defs/a'}) | tree)
  assert 'deep' in said


def many_references(count):
  twice = {
    f'a{i}': {'allOf': [{'$ref': f'#/$defs/a{i + 1}'}] * 2}
    for i in range(count)
  }
  return {'$ref': '#/$defs/a0', '$defs': twice | {f'a{count}': {}}}


def nested_unevaluated(keyword, count=40):
  out = {}
  for _ in range(count):
    out = {'allOf': [out], keyword: {}}
  return out


@pytest.mark.parametrize(
  ('wanted', 'value'),
  [
    (of(x={'pattern': '^(a|a)*$'}), {'x': 'a' * 60 + '!'}),
    (of(x={'pattern': r'^(a|aa)+\1$'}), {'x': 'a' * 60 + '!'}),
    (of(x={'items': {'pattern': '^(a|a)*$'}}), {'x': ['a' * 60 + '!'] * 40}),
    (many_references(60), {'x': 1}),
    *(
      pytest.param(
        wanted,
        {'a' * 60 + '!': 1, 'x': 'a' * 60 + '!'},
        marks=pytest.mark.nightly,
      )
      for wanted in (
        of(x=DRAFT_7 | {'pattern': '^(a|a)*$'}),
        {'patternProperties': {'^(a|a)*$': {}}},
        {'patternProperties': {'^(a|a)*$': {}}, 'additionalProperties': False},
        {
          'allOf': [{'patternProperties': {'^(a|a)*$': {}}}],
          'unevaluatedProperties': False,
        },
      )
    ),
    (nested_unevaluated('unevaluatedProperties'), {'x': 1}),
    (of(x=nested_unevaluated('unevaluatedItems')), {'x': [1]}),
  ],
)
def test_no_schema_hangs(wanted, value, monkeypatch):
  """And what is not decided in time does not fit."""
  hurried = functools.partial(keywords.limited, 0.2)
  monkeypatch.setattr(keywords, 'limited', hurried)
  began = time.process_time()
  assert 's; give shorter values' in schema.mismatch(value, wanted)
  assert time.process_time() - began < 10


def test_a_check_ends_after_a_second():
  began = time.process_time()
  assert schema.mismatch({'x': 1}, many_references(60))
  assert 0.5 < time.process_time() - began < 3


NAMES = st.sampled_from('abc')
LEAVES = st.one_of(
  st.none(),
  st.booleans(),
  st.sampled_from([0, 1, 1.0, 2, 2.5, -1, 'a', 'ab', '']),
)
VALUES = st.recursive(
  LEAVES,
  lambda x: st.one_of(st.lists(x, max_size=3), st.dictionaries(NAMES, x)),
  max_leaves=6,
)
PLAIN = st.one_of(
  st.booleans(),
  st.fixed_dictionaries(
    {
      'type': st.sampled_from(
        ['integer', 'number', 'string', 'array', 'object']
      )
    }
  ),
  st.builds(lambda x: {'enum': x}, st.lists(LEAVES, min_size=1, max_size=3)),
  st.builds(lambda x: {'const': x}, VALUES),
  st.sampled_from(
    [
      {},
      {'minimum': 1},
      {'pattern': '^a'},
      {'maxLength': 1},
      {'uniqueItems': True},
      {'minProperties': 1},
      {'required': ['a']},
      {'$ref': '#'},
      {'dependentRequired': {'a': ['b']}},
    ]
  ),
)


def combined(inner):
  some = st.lists(inner, min_size=1, max_size=2)
  keywords = {
    'properties': st.dictionaries(NAMES, inner, max_size=2),
    'patternProperties': st.dictionaries(
      st.sampled_from(['a', '^b', 'c$']), inner, max_size=2
    ),
    'additionalProperties': inner,
    'unevaluatedProperties': inner,
    'items': inner,
    'prefixItems': some,
    'unevaluatedItems': inner,
    'contains': inner,
    'anyOf': some,
    'allOf': some,
    'oneOf': some,
    'not': inner,
    'if': inner,
    'then': inner,
    'else': inner,
    'propertyNames': inner,
    'dependentSchemas': st.dictionaries(NAMES, inner, max_size=1),
  }
  return st.lists(
    st.sampled_from(sorted(keywords)), min_size=1, max_size=3, unique=True
  ).flatmap(lambda x: st.fixed_dictionaries({k: keywords[k] for k in x}))


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
  st.recursive(PLAIN, combined, max_leaves=6),
  st.dictionaries(NAMES, VALUES, max_size=3),
)
def test_it_agrees_with_the_library(wanted, value):
  """Which decides by itself where no pattern can hang."""
  try:
    schema.check(wanted)
  except ValueError:
    return
  said = schema.violation(value, wanted)
  if 'nested too deeply' in said:  # where the library may end in a panic
    return
  fits = jsonschema.Draft202012Validator(wanted).is_valid(value)
  assert (said == '') == fits
  if schema.mismatch(value, wanted) == '':
    assert fits
