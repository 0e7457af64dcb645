"""Answers are read right, or are faults: never a made-up score."""

import contextlib
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentrl.judge import answers
from agentrl.judge.item import JudgeFault
from tests import errors
from tests.judge.items import ANSWERS, cases, is_share

SHARES = st.integers(0, 10**6).map(lambda x: x / 10**6)
BEFORE = st.sampled_from(
  [
    '',
    'Score: ',
    'I counted 3 faults.\n',
    '**',
    '_',
    '[[',
    '"',
    '<score>',
    '# ',
  ]
)
AFTER = st.sampled_from(
  ['', '.', '**', '_', ']]', '", I think', '</score>', '\n']
)


@given(SHARES, st.sampled_from([1.0, 5.0, 10.0, 100.0, 2.5]), BEFORE, AFTER)
def test_any_number_of_the_scale_is_read(x, most, before, after):
  text = f'{before}{x * most:.8f}{after}'
  assert answers.number(text, most) == pytest.approx(x, abs=1e-8)


@given(st.integers(0, 10), st.sampled_from([10.0, 100.0]))
def test_the_scale_is_no_number_of_the_answer(x, most):
  forms = [
    '{}/{}',
    '{} / {}.',
    '{} out of {}',
    '{} of {}',
    '{} points out of {}',
  ]
  forms += ['{}, on a scale from 0 to {}', '0-{1}: {0}', '{} (0–{})', '{0}']
  for form in forms:
    text = form.format(x, int(most))
    assert answers.number(text, most) == x / most, text
  assert answers.number(f'{x}%', 100.0) == x / 100
  assert answers.number(f'{x} percent of it', 100.0) == x / 100


NO_NUMBERS = f"""
; ;good;nan;NaN;inf;-inf;Infinity;one;½;1½;1e400;1e-3;1E0;0x1;1_0;٣;٠.٥;0.5²;1st
v0.5.1;-1;-0.5;−0.5;+-1;2;{'9' * 400};{'9' * 5000};1.0001;0.5%;50%;0.5 %
1 percent;0.5 per cent;1,000;0,5;0..5;7/10;0/3;1 / 3;1 of 3;1 out of 3;0.2-0.4
0–1;0 to 1;2026-01-02;1/1/2026;gpt-4;12:30;0.5, of 3 turns;0.1, -0.2
"""


@pytest.mark.parametrize('text', cases(NO_NUMBERS))
def test_what_is_no_plain_number_of_the_scale_is_a_fault(text):
  with pytest.raises(JudgeFault):
    answers.number(text)


def test_the_scale_is_written_as_it_is_read():
  for most in (1.0, 10.0, 2.5, 1e6, 0.1, 1e-3):
    assert answers.number(answers.scale(most), most) == 1.0


GRADES = ('A', 'B', 'C', 'D', 'E')


def test_grades_may_be_words_and_parts_of_each_other():
  grades = ('A+', 'A', 'very.good', 'good')
  for i, x in enumerate(grades):
    assert answers.grade(f'It is {x}.', grades) == 1 - i / 3
  with pytest.raises(JudgeFault):
    answers.grade('4.5', ('5', '4'))


WORDS = st.sampled_from(
  ['yes', 'No.', 'true', 'false, since it is', '3', 'never']
)
FORMS = """
{}: {};{}) {};{}. {};{} - {};{} — {};{} = {};[{}] {};({}) {};- **{}:** {}
  {}:{};* {}. **{}**;**{}**: {};#{}: {};"{}": {};{}:  {}  ;> {}. _{}_;`{}`: {}
"""


@given(st.lists(WORDS, min_size=1, max_size=12), st.data())
def test_numbered_lines_are_read_in_any_order_among_others(words, data):
  written = [
    data.draw(st.sampled_from(cases(FORMS))).format(i, x)
    for i, x in enumerate(words, 1)
  ]
  written = data.draw(
    st.permutations([*written, 'My answers', '', '---', '1.5 x'])
  )
  assert answers.numbered('\n'.join(written), len(words)) == words


@given(
  st.lists(st.booleans() | SHARES | WORDS, min_size=1, max_size=12), st.data()
)
def test_json_is_read_as_numbered_lines_are(values, data):
  wanted = [x if isinstance(x, str) else json.dumps(x) for x in values]
  numbered = [(str(i), x) for i, x in enumerate(values, 1)]
  extra = data.draw(st.sampled_from([{}, {'why': '9: no'}, {'3.': 1, '': 2}]))
  mapping = dict(data.draw(st.permutations(numbered))) | extra
  value = data.draw(st.sampled_from([values, mapping]))
  text = json.dumps(value, indent=data.draw(st.sampled_from([None, 2])))
  form = data.draw(
    st.sampled_from(['{}', '```json\n{}\n```', '\n```\n{}```\n', ' {} '])
  )
  assert answers.numbered(form.replace('{}', text), len(values)) == wanted


@pytest.mark.parametrize(
  ('text', 'why'),
  [
    ('', '1 2'),
    ('no', '1 2'),
    ('1: yes', '2'),
    ('1: yes\n3: no', '3 2'),
    ('1: yes\n2: no\n3: no', '3 2'),
    ('0: yes\n1: no', '0 2'),
    ('1: yes\n1: no\n2: no', '1'),
    ('1: yes\n**1.** no', '1'),
    ('{"1": true, "1": false, "2": true}', '1'),
    ('{"1": true, "01": false}', '1'),
    ('{"0": true, "1": false}', '0 2'),
    ('[true]', '2'),
    ('[true, false, true]', '3 2'),
    ('[true, null]', '2'),
    ('{"1": {"met": true}, "2": [true]}', '1 2'),
    ('{"1": true, "2": false', '2'),
    ('{}', '1 2'),
    ('1.5: yes\n2026-01-02', '1 2'),
    ('12345: yes', '1 2'),
    ('[' * 90_000, '1 2'),
    ('{"1":' * 9_000, '2'),
    ('9' * 90_000, '1 2'),
  ],
)
def test_lists_that_are_not_whole_are_faults(text, why):
  with errors.raises(JudgeFault, why):
    answers.numbered(text, 2)


def test_the_same_answer_may_stand_twice_and_some_may_lack():
  assert answers.numbered('1: yes\n2: no\n\nSo:\n1: yes\n2: no', 2) == [
    'yes',
    'no',
  ]
  assert answers.lines('2: no', 3) == {2: 'no'}
  assert answers.lines('[null, 1e400]', 3) == {2: 'Infinity'}


def test_the_longest_answer_is_read_and_no_longer_one():
  long = ' ' * (answers.LONGEST - 1) + '1'
  assert answers.number(long) == 1.0
  for read in (answers.number, answers.yes_or_no, answers.check_size):
    with errors.raises(JudgeFault, '100001'):
      read(long + ' ')
  with pytest.raises(JudgeFault):
    answers.lines(long + ' ', 1)
  with pytest.raises(JudgeFault):
    answers.grade(long + ' ', GRADES)


READERS = (
  answers.number,
  lambda x: answers.number(x, 10.0),
  lambda x: answers.number(x, 100.0),
  lambda x: answers.grade(x, GRADES),
  lambda x: float(answers.yes_or_no(x)),
  lambda x: answers.choice(x, {'1': 1.0, '2': 0.0, 'draw': 0.5}),
  lambda x: float(len(answers.numbered(x, 2)) == 2),
)


@pytest.mark.parametrize('read', READERS)
@given(text=ANSWERS)
@example(text='8/10')
@example(text='\ud800')
@example(text='[' * 2000)
def test_any_text_whatever_is_a_share_or_a_fault(read, text):
  try:
    assert is_share(read(text))
  except JudgeFault as fault:
    str(fault).encode()  # whatever was answered, it can be logged


@pytest.mark.parametrize('read', READERS[2:])  # of 100 reads the most
@pytest.mark.parametrize(
  'unit',
  [
    *('1 ', '```\n', 'A ', '1: '),
    *(
      pytest.param(x, marks=pytest.mark.nightly)
      for x in ('1', 'a', '.', '0 ', '1/', '\n', '*', 'yes ', '_1')
    ),
  ],
)
def test_long_answers_take_no_longer_than_their_length(read, unit):
  """A reader that is quadratic takes a minute for one of these."""
  text = unit * (99_000 // len(unit))
  for end in ('', 'x', '%'):
    with contextlib.suppress(JudgeFault):
      assert is_share(read(text + end))
