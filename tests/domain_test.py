"""Domains of settings: what lies in them, and sentences for what does not."""

import re

import pytest

from agentrl import domain


def test_sentences():
  for field, value, sentence in (
    (domain.Whole(1), 0, 'x=0 is too low; set it to 1 or more'),
    (domain.Whole(1, 5), 9, 'x=9 is too high; set it to a whole number from 1'),
    (domain.Whole(1, also=(-1,)), 0, 'x=0 is too low; set it to 1 or more, or'),
    (domain.Real(0, above=True), 0, 'x=0 is too low; set it to more than 0'),
    (domain.Real(), 'a', "x='a' is no number; set it to a number"),
    (domain.Flag(), 1, 'x=1 is neither True nor False'),
    (domain.Tuple(), 'a,b', "a text where a tuple belongs; write ('a', 'b')"),
    (domain.Tuple(), ('a,b',), "x=('a,b',) holds 'a,b', which is no name"),
    (domain.Tuple(once=True), ('a', 'a'), 'holds a value twice'),
    (
      domain.Dominant(),
      (2, 1, 1),
      'holds 2, and those after it add up to 2; r',
    ),
    (domain.Dominant(), (1, 0), 'holds 0, which is too low; set it to more th'),
    (domain.Path(empty=False), '', "x='' is empty; set it to a path"),
  ):
    with pytest.raises(ValueError, match=re.escape(sentence)):
      field.check('x', value)
  with pytest.raises(ValueError, match=r'low=3 is more than high=2; lower it'):
    domain.Real(most='high').check('low', 3, {'high': 2})


def test_a_tuple_may_be_as_long_as_another():
  same, less = domain.Tuple(like='y'), domain.Tuple(like='y', fewer=1)
  assert same.explain() == 'a tuple of as many as y, each a name'
  assert less.explain() == 'a tuple of 1 fewer than y, each a name'
  beside = {'y': ('a', 'b')}
  same.check('x', ('c', 'd'), beside)
  less.check('x', ('c',), beside)
  less.check('x', ('c',), {'y': None})  # what y may be is said of y
  for x, value in ((same, ('c',)), (less, ('c', 'd'))):
    with pytest.raises(ValueError, match=r"values beside y=\('a', 'b'\); set"):
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
  assert mistake.startswith("is unknown (did you mean 'sparse'?); choose from")
