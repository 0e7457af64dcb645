"""Shipped verifiers: the answer of a message, and its score."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.env.files import verifiers
from tests import errors


@pytest.mark.parametrize(
  ('completion', 'answer'),
  [
    ('Cork', 'Cork'),
    (' Cork\n', 'Cork'),
    ('<think>Dublin? no.</think>\nCork', 'Cork'),
    ('It is <answer> Cork </answer>.', 'Cork'),
    ('<answer>Dublin</answer> no, <answer>Cork</answer>', 'Cork'),
    (r'so \boxed{7/2} it is', '7/2'),
    (r'\boxed{1} and <answer>2</answer>', '2'),
    ('<think>and so <answer>Cork</answer>', ''),  # the thought never ended
    ('', ''),
    (r'So \boxed{\frac{1}{2}}', r'\frac{1}{2}'),
    (r'\boxed{3}. No: \boxed{\frac{1}{2}} it is', r'\frac{1}{2}'),
    (r'\boxed{\{1, 2\}}', r'\{1, 2\}'),
    (r'\boxed{\}{a}}', r'\}{a}'),
    (r'\boxed{a\\{b}}', r'a\\{b}'),
    (r'\boxed {x}', 'x'),
    ('\\boxed\n{ x\n}', 'x'),
    (r'\fbox{4}', '4'),
    (r'\boxed 5', '5'),
    (r'\boxed5.', '5'),
    (r'\boxed -3.5, so', '-3.5'),
    (r'\boxed B', 'B'),
    (r'\boxed{4} as I was to use \boxed to say', '4'),
    (r'\boxedx{4}', r'\boxedx{4}'),
    (r'\boxed{\text{Cork}}', 'Cork'),
    (r'\boxed{\mathrm{B}}', 'B'),
    (r'\boxed{3} or \boxed{}', ''),
    (r'\boxed{3}, no, \boxed{4', ''),  # cut
    ('<answer>3</answer>, no, <answer>4', ''),
    (r'<answer>It is \boxed{5}.</answer>', '5'),
    (r'\boxed{<answer>5</answer>}', '5'),
    (r'<answer>4</answer> \boxed{5}', '5'),
    (r'<think>\boxed{1}</think>so 2', 'so 2'),
    (r'<think>\boxed{1}', ''),
    (r'\boxed{}', ''),
  ],
)
def test_the_answer_of_a_message(completion, answer):
  assert verifiers.answer_of(completion) == answer


@given(st.recursive(st.just('x'), lambda x: x.map(lambda y: f'a{{{y}}}b')))
def test_braces_of_any_depth_are_in_the_box(inner):
  assert verifiers.answer_of(rf'\boxed{{0}} \boxed{{{inner}}} }}') == inner
  assert verifiers.answer_of(rf'\boxed{{0}} \boxed{{{inner}') == ''


@pytest.mark.parametrize('unit', [r'\boxed{', '{', '}', '\\', '<answer>', ' '])
def test_long_messages_take_no_longer_than_their_length(unit):
  verifiers.answer_of(r'\boxed{' + unit * (200_000 // len(unit)))


@pytest.mark.parametrize(
  ('verifier', 'completion', 'answer', 'score'),
  [
    ('exact', 'The Red Mug.', 'red mug', 1),
    ('exact', 'mug', ['cup', 'mug'], 1),
    ('exact', 'red', 'red mug', 0),
    ('numeric', '3.50', '7/2', 1),
    ('numeric', '<answer>$1,000</answer>', 1000, 1),
    ('numeric', 'it is 4', 4, 0),  # a sentence is no number
    ('numeric', '', 4, 0),
    ('f1', 'red', 'red mug', 2 / 3),
    ('f1', 'red mug', ['blue cup', 'red mug'], 1),
    ('unscored', 'anything', None, 0),
  ],
)
def test_scores(verifier, completion, answer, score):
  row = {'prompt': 'x', 'answer': answer}
  assert verifiers.SHIPPED[verifier](completion, row) == pytest.approx(score)


NO_ANSWERS = (
  None, [], {}, [[]], '', ' ', ['x', ''], math.nan, math.inf, [1, -math.inf],
)  # fmt: skip


@pytest.mark.parametrize('answer', NO_ANSWERS)
def test_a_row_without_an_answer(answer):
  with errors.raises(ValueError, 'answer'):
    verifiers.exact('x', {'answer': answer})


@pytest.mark.parametrize(
  'answer', [['4', 'four'], True, '50%', '3 km', 'nan', '1e9999', '1/0']
)
def test_an_answer_that_is_not_a_number(answer):
  with errors.raises(ValueError, 'answer'):
    verifiers.numeric('4', {'answer': answer})


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers())
def test_any_number_of_a_row_is_one_and_equals_itself(value):
  row = {'answer': value}
  written = verifiers.accepted(row)[0]
  if len(written) <= 1000:
    assert verifiers.numeric(str(value), row)
    assert verifiers.numeric(written, row)
    assert verifiers.exact(written, row)
    assert not verifiers.numeric(f'1{written.lstrip("-")}', row)


def test_numbers_that_json_writes_in_short():
  row = json.loads('{"answer": 0.00001}')
  for text in ('0.00001', '1e-5', '1E-05', '.00001', '1/100000', '$0.00001$'):
    assert verifiers.numeric(text, row), text
  assert verifiers.exact('0.00001', row)
  assert not verifiers.numeric('1e5', row)
  assert verifiers.exact('3', {'answer': 3.0})
  assert verifiers.numeric(r'\boxed{-\frac{1}{2}}', {'answer': -0.5})


def test_what_tells_answers_apart_is_graded():
  for answer in ('A', '+', '3.5', '-1', 'C++', 'the'):
    assert verifiers.exact(f' {answer} ', {'answer': ['x', answer]})
    for other in ('', '.', 'B', '35', '1', 'C', '-'):
      assert not verifiers.exact(other, {'answer': answer}), (other, answer)
      assert not verifiers.f1(other, {'answer': answer})


@pytest.mark.parametrize(
  ('text', 'answer'),
  [
    ('2 and 40.\n#### 42', '42'),
    ('#### 42\n', '42'),
    ('#### Step 1\nIt is 42.', '#### Step 1\nIt is 42.'),
    ('#### 41\n<answer>42</answer>', '42'),
    ('##### 42', '##### 42'),
  ],
)
def test_a_last_line_behind_four_signs_is_the_answer(text, answer):
  assert verifiers.answer_of(text) == answer
  assert verifiers.exact(text, {'answer': answer})


def test_an_accepted_answer_may_have_its_reasons_before_it():
  row = {'answer': 'He has 2 and 40.\n#### 42'}
  assert verifiers.numeric('42', row)
  assert verifiers.exact('It is so.\n#### 42', row)
  assert not verifiers.exact('43', row)
