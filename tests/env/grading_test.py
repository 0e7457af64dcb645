"""Forms of numbers, and the measures of SQuAD by hand."""

import itertools
import re
import string
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.env import grading


@pytest.mark.parametrize(
  ('text', 'value'),
  [
    ('12', 12),
    (' -3 ', -3),
    ('−3', -3),
    ('+4.', 4),
    ('0.5', Fraction(1, 2)),
    ('.5', Fraction(1, 2)),
    ('1/2', Fraction(1, 2)),
    ('-2/4', Fraction(-1, 2)),
    ('1,000', 1000),
    ('1,234,567.25', Fraction(4938269, 4)),
    ('$3.50', Fraction(7, 2)),
    ('007', 7),
    ('0.1', Fraction(1, 10)),
    ('1,00', None),
    ('10,0000', None),
    ('1/0', None),
    ('1/-2', None),
    ('', None),
    ('.', None),
    ('-', None),
    ('nan', None),
    ('1e5', None),
    ('1_000', None),
    ('²', None),
    ('٣', None),
    ('3 4', None),
    ('four', None),
    ('9' * 1001, None),
  ],
)
def test_number(text, value):
  assert grading.number(text) == value


@given(st.fractions())
def test_number_reads_what_a_fraction_writes(value):
  assert grading.number(str(value)) == value
  assert grading.number(f'{value.numerator:,}') == value.numerator


def test_same_is_by_value_for_numbers_and_by_words_else():
  assert grading.same('4.0', '4')
  assert grading.same('2/4', '0.5')
  assert not grading.same('four', '4')
  assert not grading.same('', '4')
  assert grading.same('The Oslo!', 'oslo')
  assert not grading.same('Oslo 4', 'oslo')


@pytest.mark.parametrize(
  ('text', 'normal'),
  [
    ('  The   Cat. ', 'cat'),
    ("An owl's a bird", 'owls bird'),
    ('theatre', 'theatre'),
    ('A-b', 'ab'),
    ('...', ''),
  ],
)
def test_normal(text, normal):
  assert grading.normal(text) == normal
  assert grading.normal(normal) == normal


def test_exact_and_f1_take_the_best_accepted_answer():
  accepted = ['The river Sarn', 'Sarn']
  assert grading.exact('sarn.', accepted)
  assert not grading.exact('the Sarn river', accepted)
  # 2 common of 2 said and 2 accepted; order does not count.
  assert grading.f1('the Sarn river', accepted) == 1
  assert grading.f1('big river Sarn', accepted) == pytest.approx(4 / 5)
  assert grading.f1('Sarn Sarn', ['Sarn']) == pytest.approx(2 / 3)
  assert grading.f1('Oslo', accepted) == 0
  assert grading.f1('', ['the']) == 0
  assert grading.f1('x', []) == 0


@pytest.mark.parametrize(
  ('answer', 'gold', 'value'),
  [
    ('red mug', 'red mug', 1),
    ('Red, mug!', 'red mug', 1),
    ('mug red', 'red mug', 1 / 2),  # in order
    ('red big mug', 'red mug', 4 / 5),
    ('a b c d', 'a x c y d', 6 / 9),
    ('a a', 'a', 2 / 3),
    ('the mug', 'mug', 2 / 3),  # articles count
    ('mugs', 'mug', 0),  # no stemming
    ('', 'mug', 0),
    ('mug', '', 0),
    ('', '', 0),
  ],
)
def test_rouge_l(answer, gold, value):
  assert grading.rouge_l(answer, gold) == pytest.approx(value, abs=0)
  assert grading.rouge_l(gold, answer) == pytest.approx(value, abs=0)


@settings(max_examples=60, deadline=None)
@given(*[st.lists(st.sampled_from('abc'), max_size=6)] * 2)
def test_rouge_l_takes_the_longest_common_subsequence(one, two):
  longest = max(
    len(some)
    for n in range(len(one) + 1)
    for some in itertools.combinations(one, n)
    if is_subsequence(some, two)
  )
  value = 2 * longest / (len(one) + len(two)) if longest else 0
  assert grading.rouge_l(' '.join(one), ' '.join(two)) == value


def is_subsequence(some, words):
  rest = iter(words)
  return all(word in rest for word in some)


def official(answer, gold):
  """Exact match and F₁ as the script of SQuAD 1.1 computes them."""

  def tokens(text):
    bare = ''.join(x for x in text.lower() if x not in string.punctuation)
    return re.sub(r'\b(a|an|the)\b', ' ', bare).split()

  ours, theirs = tokens(answer), tokens(gold)
  same = sum((Counter(ours) & Counter(theirs)).values())
  if not same:
    return ours == theirs, 0.0
  precision, recall = same / len(ours), same / len(theirs)
  return ours == theirs, 2 * precision * recall / (precision + recall)


WORDS = st.lists(
  st.sampled_from(
    ['the', 'The', 'a', 'an', 'Sarn', 'sarn', 'tea', "o'er", '.', '-', '', '42']
  ),
  max_size=6,
).map(' '.join)


@given(WORDS, st.lists(WORDS, min_size=1, max_size=3))
def test_measures_are_those_of_the_official_script(answer, accepted):
  exact, f1 = zip(*(official(answer, gold) for gold in accepted), strict=True)
  assert grading.exact(answer, accepted) == any(exact)
  assert grading.f1(answer, accepted) == pytest.approx(max(f1))
  assert not any(exact) or grading.f1(answer, accepted) in (0.0, 1.0)
