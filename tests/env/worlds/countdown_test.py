"""Countdown against every expression there is."""

import itertools
import re
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.env import tool_env
from agentrl.env.worlds.countdown import (
  FORMS,
  Countdown,
  reachable,
  references,
  similarity,
  steps,
  worth,
)
from tests.env.promises import refuses


def every(values):
  """All values of trees over all of these, by merging two at a time."""
  if len(values) == 1:
    yield values[0]
  for i, j in itertools.permutations(range(len(values)), 2):
    a, b = values[i], values[j]
    rest = [x for k, x in enumerate(values) if k not in (i, j)]
    for value in (a + b, a - b, a * b, *([a / b] if b else [])):
      yield from every([value, *rest])


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=2, max_size=3))
def test_it_finds_all_that_takes_all_numbers(numbers):
  values = [Fraction(n) for n in numbers]
  part = {
    x
    for n in range(1, len(values))
    for some in itertools.combinations(values, n)
    for x in every(list(some))
  }
  whole = {x for x in every(values) if x > 0} - part
  found = reachable(numbers, '+-*/')
  assert set(found) == whole
  for value, text in found.items():
    assert worth(text, numbers, '+-*/') == value
    # Python's own arithmetic, which rounds.
    assert eval(text) == pytest.approx(float(value))


@pytest.mark.parametrize(
  ('text', 'value'),
  [
    ('3*4*2', 24),
    (' (3+4) * 2 ', 14),
    ('4/3', None),  # not among the operations
    ('4*4', None),  # one 4 is given
    ('3**2', None),
    ('4//2', None),
    ('-3+4', None),
    ('3', 3),
    ('2-3', -1),
    ('3+', None),
    ('34', None),
    ('3.0*4', None),
    ('__import__("os")', None),
    ('3 4', None),
    ('', None),
    ('(' * 150 + '3' + ')' * 40, None),
    ('3+' * 1000 + '3', None),
    ('٣*4', None),
    ('3\x00', None),
  ],
)
def test_worth_keeps_the_rules(text, value):
  assert worth(text, [3, 4, 2], '+-*') == value


def test_division_is_exact():
  assert worth('1/3*3', [1, 3, 3], '+*/') == 1
  assert worth('1/0', [1, 0], '/') is None


@pytest.mark.parametrize(
  ('answer', 'score', 'legal', 'near'),
  [
    ('2*(4*3)', 1, 1, 1),  # one of many references, in needless parentheses
    ('2*3+4', 0, 1, 0.8),  # four symbols of five
    ('2*3', 0, 1, 0.75),  # three symbols, and the reference has five
    ('6*4', 0, 0, 0),  # which the rules do not allow
    ('24', 0, 0, 0),
  ],
)
def test_answers(answer, score, legal, near):
  env = Countdown().env()
  assert env.reset({'target': 24, 'numbers': [2, 3, 4]}, 5) == '24: 2 3 4'
  reply = env.step(tool_env.answer_message(answer))
  env.close()
  assert (reply.score, reply.info['format']) == (score, legal)
  assert reply.info['similarity'] == pytest.approx(near)


def test_tasks_need_their_settings():
  family = Countdown(4, 12, 30, '+*')
  for task, said, _ in family.tasks('train', 20, 1):
    assert len(task['numbers']) == 4
    assert max(task['numbers']) <= 12
    assert 0 < task['target'] <= 30
    assert '-' not in said[1]


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 12), min_size=2, max_size=4))
def test_steps_are_the_operations_of_the_expression(numbers):
  """Each is right, and takes the numbers and the results, every one once."""
  for value, text in reachable(numbers, '+-*').items():
    pool = list(numbers)
    for step in steps(text).split():
      a, sign, b, result = re.fullmatch(r'(\d+)(.)(\d+)=(\d+)', step).groups()
      pool.remove(int(a))
      pool.remove(int(b))
      assert eval(f'{a}{sign}{b}') == int(result)
      pool.append(int(result))
    assert pool == [value]
  assert steps('3/(4/2)') == '4/2=2 3/2=3/2'


def trees(numbers):
  """Text of every tree over all, by merging two at a time."""
  if len(numbers) == 1:
    yield numbers[0]
  for i, j in itertools.permutations(range(len(numbers)), 2):
    rest = [x for k, x in enumerate(numbers) if k not in (i, j)]
    for sign in '+-*':
      yield from trees([f'({numbers[i]}{sign}{numbers[j]})', *rest])


def common(x, y):
  """The longest common subsequence, by trying all."""
  return next(
    n
    for n in range(len(x), -1, -1)
    for some in itertools.combinations(x, n)
    if all(symbol in rest for rest in [iter(y)] for symbol in some)
  )


def value(text):
  """Apart from comprehensions, in which `eval` crashes Python 3.13.0."""
  return eval(text)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=2, max_size=3))
def test_similarity_is_to_the_nearest_of_all_references(numbers):
  every = [*trees([*map(str, numbers)])]
  target = value(every[len(every) // 2])
  gold = references(tuple(numbers), target, '+-*')
  whole = [x for x in every if value(x) == target]
  assert {similarity(x, gold) for x in whole} == {1}
  assert all(value(x) == target for x in gold)
  for text in every[::9]:
    (short,) = (
      x
      for x in references(tuple(numbers), value(text), '+-*')
      if similarity(text, [x]) == 1
    )
    x, *ys = (re.findall(r'\d+|[^\d]', y) for y in (short, *gold))
    want = max(2 * common(x, y) / (len(x) + len(y)) for y in ys)
    assert similarity(text, gold) == pytest.approx(want)


@pytest.mark.parametrize('form', [*FORMS, 'every'])
def test_demonstrations_have_the_form_that_is_asked_for(form):
  seen, env = set(), Countdown(demonstrate=form).env()
  for task, messages, _ in Countdown(demonstrate=form).tasks('train', 20, 0):
    env.reset(task, 0)
    replies = [env.step(x) for x in messages]
    assert replies[-1].score == 1
    info = [{k: r.info[f'form_{k}'] for k in FORMS} for r in replies]
    assert not any(sum(x.values()) for x in info[:-1])
    assert sum(info[-1].values()) == 1
    said = max(info[-1], key=info[-1].get)
    assert len(messages) == 1 + (said == 'call')
    assert ('</think>' in messages[-1]) == (said == 'steps')
    seen.add(said)
  env.close()
  assert seen == ({*FORMS} if form == 'every' else {form})


def test_forms_of_answers_that_are_no_demonstrations():
  env = Countdown().env()
  task = {'target': 24, 'numbers': [2, 3, 4]}
  answer = tool_env.answer_message('2+3')
  for before, last, form in (
    (['hm'], answer, 'direct'),
    (['<calculator>2*</calculator>'], answer, 'direct'),  # no result was seen
    (['<calculator>2*3</calculator>', 'hm'], answer, 'call'),
    (['<calculator>2*3</calculator>'], f'<think>6</think>{answer}', 'call'),
    ([], f'<think>so</think> {answer}', 'steps'),
    ([], f'<think> </think>{answer}', 'direct'),
  ):
    env.reset(task, 0)
    for message in before:
      env.step(message)
    info = env.step(last).info
    assert [k for k in FORMS if info[f'form_{k}']] == [form]
  env.close()


def test_bad_settings():
  refuses(
    Countdown,
    numbers=(1, 6),
    largest=(1,),
    most=(0,),
    operations=('', '++', '^'),
    format=('xml',),
  )


def test_two_to_five_numbers_can_be_had():
  for numbers in (2, 5):
    assert Countdown(numbers=numbers).numbers == numbers
