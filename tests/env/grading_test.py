"""Forms of numbers, and the measures of SQuAD by hand."""

from fractions import Fraction

import pytest
from hypothesis import given
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
