"""Whether arguments fit a schema, in one sentence."""

import pytest

from agentrl.tool import schema

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


def test_a_schema_may_allow_more():
  open_ended = SEARCH | {'additionalProperties': True}
  assert schema.mismatch({'query': 'a', 'm': 1}, open_ended) == ''
