"""Forms of numbers, and the measures of SQuAD by hand."""

import itertools
import re
import string
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.text import grading


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
    ('1e5', 100_000),
    ('1e-5', Fraction(1, 100_000)),
    ('-2.5E+3', -2500),
    ('1e9999', None),
    ('1e', None),
    ('e5', None),
    ('1e5/2', None),
    ('5.', 5),
    ('5..', None),
    ('-0', 0),
    ('-.5', Fraction(-1, 2)),
    ('+3', 3),
    ('-$3.50', Fraction(-7, 2)),
    ('$$3', None),
    ('$3$', 3),
    (r'\frac{1}{2}', Fraction(1, 2)),
    (r'-\dfrac{10}{4}', Fraction(-5, 2)),
    (r'$\tfrac{1}{2}$', Fraction(1, 2)),
    (r'\frac{1}{0}', None),
    (r'\frac12', Fraction(1, 2)),
    (r'\frac{-1}{2}', Fraction(-1, 2)),
    (r'-\frac{-1}{2}', None),
    (r'\frac123', None),
    ('1{,}000', 1000),
    (r'1\,234\,567', 1234567),
    (r'1\!,000', 1000),
    (r'\$3.50', Fraction(7, 2)),
    ('1{,}00', None),
    (r'3\,km', None),
    (r'\frac{1}{2}3', None),
    (r'2\frac{1}{2}', None),
    ('1\u202f000', 1000),
    ('1\u2009234\u2009567', 1234567),
    ('1\u00a000', None),
    ('1 000', None),
    ('50%', None),
    ('3 km', None),
    ('--3', None),
    ('- 3', None),
    ('inf', None),
    ('Infinity', None),
    ('True', None),
    ('３', None),
    ('½', None),
    ('0x10', None),
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
    ('Vitamin A', 'vitamin a'),
    ('The A', 'a'),
    ('3.5', '3.5'),
    ('-1', '-1'),
    ('−1', '-1'),
    ('–1', '-1'),
    ('(-1)', '-1'),
    ('-$5.', '-5'),
    ('€5', '5'),
    ('.5', '.5'),
    ('...5', '5'),
    ('1,234.5', '1234.5'),
    ('1,5', '1,5'),
    ('3–5', '3-5'),
    ('1/2', '1/2'),
    ('10:30.', '10:30'),
    ('1e-05', '1e-05'),
    ('C++', 'c++'),
    ('C#, F#', 'c# f#'),
    ('#1', '1'),
    ('A+', 'a+'),
    ('A-', 'a-'),
    ('<5', '<5'),
    ('x^2', 'x^2'),
    ('x^{2}', 'x^2'),
    ('10^{-5}', '10^-5'),
    ('x + 1', 'x+1'),
    ('x = -1', 'x=-1'),
    ('(1, -2)', '1,-2'),
    ('May 5, 2020', 'may 5 2020'),
    ('Simon + Garfunkel', 'simon garfunkel'),
    (r'\dfrac{1}{12}', 'frac1 12'),
    ('**Cork**', 'cork'),
    ('Straße', 'strasse'),
    ('re\u0301sume\u0301', 'r\u00e9sum\u00e9'),
    ('東京。', '東京'),
    ('「東京」', '東京'),
    ('की', 'की'),
    ('10²', '10²'),
    ('owl’s', 'owls'),
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


DIFFERENT = """
A B;A;+ -;+;. ,;.;the;3.5 35;3.5;-1 1;-1;1/2 12;C++ C;C;C#;A+ A-
3-5 35;10:30 1030;<5 >5;<5;5;1.5.2 152;1e5 1e-5;x^2 x2;Vitamin A;Vitamin;0.5 5
.5;5;10²;102;1,5;15;x+1;x-1;x>y;x<y;x=y;x>3;x<3;x=5;x=-5;(1,-2);12;(1,2);(-1,2)
\\frac{1}{12};\\frac{11}{2};x^{10};x10;10^{-5};10-5;a+b;a=b
"""


def test_different_answers_are_not_equal():
  texts = sorted(set(DIFFERENT.replace('\n', ';').split(';')) - {''})
  for answer, gold in itertools.permutations(texts, 2):
    assert not grading.exact(answer, [gold]), (answer, gold)
  for text in texts:
    assert grading.exact(text, ['x', text])
    assert grading.f1(text, ['x', text]) == 1
    assert not grading.exact('', [text])
    assert not grading.exact(' \n', [text])
    assert not grading.exact('..', [text])


EQUAL = r"""
x = 5,x=5;x + 1,x+1;x^2 - 1,x^2-1;x > 3,x>3;(1, 2),(1,2);\{1, 2\},{1,2}
\dfrac{1}{2},\frac{1}{2};x^{2},x^2;3 - 5,3–5
"""


def test_spaces_around_signs_tell_nothing_apart():
  for pair in EQUAL.strip().replace('\n', ';').split(';'):
    one, other = re.split(r',(?=[x(\\{3])', pair, maxsplit=1)
    assert grading.exact(one, [other]), pair


def test_nothing_equals_nothing():
  for answer, gold in itertools.product(['', ' ', '\u3000'], repeat=2):
    assert not grading.exact(answer, [gold])
    assert not grading.same(answer, gold)
    assert grading.f1(answer, [gold]) == 0


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


def squad_tokens(text):
  bare = ''.join(x for x in text.lower() if x not in string.punctuation)
  return re.sub(r'\b(a|an|the)\b', ' ', bare).split()


def official(answer, gold):
  """Exact match and F₁ as the script of SQuAD 1.1 computes them."""
  ours, theirs = squad_tokens(answer), squad_tokens(gold)
  same = sum((Counter(ours) & Counter(theirs)).values())
  if not same:
    return ours == theirs, 0.0
  precision, recall = same / len(ours), same / len(theirs)
  return ours == theirs, 2 * precision * recall / (precision + recall)


WORDS = st.lists(
  st.sampled_from(
    [
      'the',
      'The',
      'a',
      'an',
      'Sarn',
      'sarn',
      'tea',
      "o'er",
      '.',
      '-',
      '',
      'k42',
    ]
  ),
  max_size=6,
).map(lambda x: ' '.join([*x, 'tea']))  # no article ends an answer


@given(WORDS, st.lists(WORDS, min_size=1, max_size=3))
def test_measures_are_those_of_the_official_script(answer, accepted):
  exact, f1 = zip(*(official(answer, gold) for gold in accepted), strict=True)
  assert grading.exact(answer, accepted) == any(exact)
  assert grading.f1(answer, accepted) == pytest.approx(max(f1))
  assert not any(exact) or grading.f1(answer, accepted) in (0.0, 1.0)


@given(WORDS)
def test_keys_of_questions_are_those_of_squad(text):
  """Splits that are made by them do not move."""
  assert grading.squad_words(text) == ' '.join(squad_tokens(text))
  assert grading.squad_words('Is 3.5 the half?') == 'is 35 half'
