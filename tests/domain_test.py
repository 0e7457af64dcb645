"""Domains of settings: what lies in them, and sentences for what does not."""

import math

import numpy as np
import pytest

from agentrl import domain
from tests import errors

VALUES = (
  math.nan, math.inf, -math.inf, -1, 0, 1, 2, 5, 6, -0.5, 0.0, 0.5, 1.0,
  10**12, 10**400, 1e300, np.float32(0.5), np.int32(1), np.True_,
  None, True, False, '', ' ', 'a', 'b', 'a b', 'a:b.c_-', 'x/y', 'nul\0',
  '\ud800', 'gs://x/y', 's3://x', 'x' * 300, b'a', object(),
  (), ('a',), ['a'], ('a', 'a'), ('a', 1), ('a b',), (1, 2), (4, 2, 1),
  (2, 1, 1), (1, 0), (math.nan, 1), {},
)  # fmt: skip


def number(x) -> bool:
  """A number that computes in float32, or inf."""
  kinds = int, float, np.floating, np.integer
  if isinstance(x, bool) or not isinstance(x, kinds) or x != x:
    return False
  return abs(x) == math.inf or abs(x) < 3.4e38


def finite(x) -> bool:
  return number(x) and abs(x) != math.inf


def whole(x) -> bool:
  return number(x) and isinstance(x, int | np.integer) and abs(x) < 2**31


def text(x) -> bool:
  return isinstance(x, str) and not set(x) & {'\0', '\ud800'}


def name(x) -> bool:
  return text(x) and 0 < len(x) < 256 and not set(x) & {' ', '/'}


def several(x, of) -> bool:
  return isinstance(x, tuple | list) and all(map(of, x))


PROPERTIES = {
  domain.Real(): finite,
  domain.Real(0, 1): lambda x: finite(x) and 0 <= x <= 1,
  domain.Real(0, 1, above=True): lambda x: finite(x) and 0 < x <= 1,
  domain.Real(0, 1, below=True): lambda x: finite(x) and 0 <= x < 1,
  domain.Real(1, infinite=True): lambda x: number(x) and x >= 1,
  domain.Whole(): whole,
  domain.Whole(1, 5): lambda x: whole(x) and 1 <= x <= 5,
  domain.Whole(1, also=(-1,)): lambda x: whole(x) and (x >= 1 or x == -1),
  domain.Flag(): lambda x: isinstance(x, bool | np.bool_),
  domain.OneOf('a', 'b'): lambda x: isinstance(x, str) and x in ('a', 'b'),
  domain.Text(): text,
  domain.Text(empty=False): lambda x: text(x) and bool(x.strip()),
  domain.Path(): lambda x: text(x) and '://' not in x and len(x) < 256,
  domain.Path(bucket=True): lambda x: (
    text(x) and not x.startswith('s3://') and len(x) < 256
  ),
  domain.Name(): name,
  domain.Tuple(): lambda x: several(x, name),
  domain.Tuple(least=1): lambda x: several(x, name) and len(x) > 0,
  domain.Tuple(length=2): lambda x: several(x, name) and len(x) == 2,
  domain.Tuple(once=True): lambda x: several(x, name) and len({*x}) == len(x),
  domain.Dominant(): lambda x: (
    several(x, finite)
    and all(y > max(0, sum(x[i + 1 :])) for i, y in enumerate(x))
  ),
}


@pytest.mark.parametrize('of', PROPERTIES, ids=repr)
def test_what_lies_in_a_domain(of):
  holds = [not of.mistake(value, {}) for value in VALUES]
  expected = [bool(PROPERTIES[of](value)) for value in VALUES]
  assert holds == expected, [
    value for value, a, b in zip(VALUES, holds, expected, strict=True) if a != b
  ]
  assert set(expected) == {True, False}


@pytest.mark.parametrize('of', PROPERTIES, ids=repr)
def test_what_does_not_is_refused_by_name_in_one_line(of):
  for value in VALUES:
    if of.mistake(value, {}):
      with errors.raises(ValueError, 'some.field') as caught:
        of.check('some.field', value)
      assert '\n' not in str(caught.value)


def test_sentences():
  for field, value, sentence in (
    (domain.Whole(1), 0, 'x 0 1'),
    (domain.Whole(1, 5), 9, 'x 9 1'),
    (domain.Whole(1, also=(-1,)), 0, 'x 0 1'),
    (domain.Real(0, above=True), 0, 'x 0'),
    (domain.Real(), 'a', 'x a'),
    (domain.Flag(), 1, 'x 1'),
    (domain.Tuple(), 'a,b', 'a b'),
    (domain.Tuple(), ('a,b',), 'x a'),
    (domain.Tuple(once=True), ('a', 'a'), ''),
    (
      domain.Dominant(),
      (2, 1, 1),
      '2',
    ),
    (domain.Dominant(), (1, 0), '0'),
    (domain.Path(empty=False), '', 'x empty'),
  ):
    with errors.raises(ValueError, sentence):
      field.check('x', value)
  with errors.raises(ValueError, 'low 3 high 2'):
    domain.Real(most='high').check('low', 3, {'high': 2})


def test_a_tuple_may_be_as_long_as_another():
  same, less = domain.Tuple(like='y'), domain.Tuple(like='y', fewer=1)
  assert 'as long as y' in same.explain()
  assert '1 shorter than y' in less.explain()
  beside = {'y': ('a', 'b')}
  same.check('x', ('c', 'd'), beside)
  less.check('x', ('c',), beside)
  less.check('x', ('c',), {'y': None})  # what y may be is said of y
  for x, value in ((same, ('c',)), (less, ('c', 'd'))):
    with errors.raises(ValueError, 'y a b'):
      x.check('x', value, beside)


def test_a_class_without_a_file_or_with_unknown_types_declares_nothing():
  scope = {'__name__': 'nowhere'}
  exec('class Own:\n  size: "Unknown" = 3', scope)
  assert domain.declared(scope['Own']) == {}
  assert domain.comments(scope['Own']) == {}


def test_the_closest_word_is_suggested():
  assert domain.suggest('grop', ['grpo', 'oprl']) == " (did you mean 'grpo'?)"
  assert domain.suggest('chess', ['grpo', 'oprl']) == ''
  mistake = domain.OneOf('dense', 'sparse').mistake('sparce', {})
  assert mistake.endswith("(did you mean 'sparse'?)")
