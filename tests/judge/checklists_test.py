"""Lists of questions: weights, dependencies, quotes and milestones."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl import registry
from agentrl.judge import checklists
from agentrl.judge.checklists import Criterion
from agentrl.judge.item import JudgeFault
from agentrl.service.base import ServiceFault
from tests import errors
from tests.judge.items import (
  ANSWERS,
  TALK,
  WHOLE,
  Script,
  asked,
  cases,
  is_share,
  item_of,
  refuse,
)


def with_task(**task):
  return WHOLE._replace(task=task)


def brute(yes, weights, after):
  """Σ w m / Σ w in fractions; an item is met with all that it comes after."""

  def met(k):
    return yes[k] and (after[k] < 0 or met(after[k]))

  total = sum(map(Fraction, weights))
  return float(
    sum(Fraction(w) for k, w in enumerate(weights) if met(k)) / total
  )


LISTS = st.integers(1, 9).flatmap(
  lambda n: st.tuples(
    st.lists(st.booleans(), min_size=n, max_size=n),
    st.lists(
      st.floats(0, 50, width=32).filter(lambda x: not 0 < x < 1e-6),
      min_size=n,
      max_size=n,
    ).filter(any),
    st.tuples(*(st.integers(-1, k - 1) for k in range(n))),
  )
)


@given(LISTS, st.booleans())
def test_a_checklist_is_its_weighed_sum_by_brute_force(drawn, in_json):
  yes, weights, after = drawn
  n = len(yes)
  text = '\n'.join(
    f'{k + 1}: {"yes" if x else "no"}' for k, x in enumerate(yes)
  )
  if in_json:
    text = json.dumps({str(k + 1): x for k, x in enumerate(yes)})
  questions = tuple(f'Q{k}?' for k in range(n))
  given_in_config = checklists.checklist(
    asked(WHOLE, Script(text)),
    questions=questions,
    weights=tuple(weights),
    after=after,
  )
  rows = [
    {'question': q, 'weight': w, 'after': a}
    for q, w, a in zip(questions, weights, after, strict=True)
  ]
  item = with_task(checklist=rows)
  given_in_task = checklists.checklist(asked(item, Script(text)))
  assert given_in_config == given_in_task
  assert given_in_task == pytest.approx(brute(yes, weights, after), abs=1e-12)
  assert is_share(given_in_task)


def test_without_weights_or_dependencies_it_is_the_share():
  ask = Script('1: yes\n2: no\n3: yes\n4: yes')
  got = checklists.checklist(
    asked(WHOLE, ask), questions=('a?', 'b?', 'c?', 'd?')
  )
  assert got == 0.75
  (prompt,) = ask.prompts
  assert '\n1. a?\n2. b?\n3. c?\n4. d?\n' in prompt
  assert all(x in prompt for x in TALK)


@given(
  st.lists(st.floats(0, 1), min_size=1, max_size=20),
  st.lists(st.floats(1e-3, 1e3), min_size=20, max_size=20),
)
def test_a_weighed_sum_never_leaves_its_range(points, weights):
  items = [Criterion('x', w) for w in weights[: len(points)]]
  got = checklists.weighed(points, items)
  assert min(points) - 1e-12 <= got <= max(points) + 1e-12
  assert is_share(got)
  assert checklists.weighed([1.0] * len(items), items) == 1.0


def test_weights_that_add_up_to_0_are_a_fault():
  with pytest.raises(JudgeFault):
    checklists.weighed([1.0, 0.0], [Criterion('x', 0.0)] * 2)


def test_questions_of_the_config_come_before_those_of_the_task():
  item = with_task(checklist=['of the task?', {'question': 'and this?'}])
  ask = Script('1: yes\n2: no')
  assert checklists.checklist(asked(item, ask)) == 0.5
  assert checklists.checklist(asked(item, ask), questions=('x?', 'y?')) == 0.5
  first, second = ask.prompts
  assert 'of the task?' in first
  assert 'of the task?' not in second
  assert 'y?' in second
  other = with_task(mine=('x?',))
  assert (
    checklists.checklist(asked(other, Script('1: yes')), field='mine') == 1.0
  )


BROKEN = (
  None, 'a text?', '', [], [3], [None], [''], [' '], {}, 7, [['x?']],
  [{}], [{'weight': 1.0}], [{'question': 3}], [{'question': 'x?', 'of': 1}],
  *([{'question': 'x?', 'weight': x}] for x in (-1, 'a', None, 0, math.nan)),
  *([{'question': 'x?', 'weight': x}] for x in (math.inf, 10**400, True)),
  *([{'question': 'x?', 'after': x}] for x in (0, 1, -2, 'a', 0.0, None, True)),
  [{'question': 'x?', 'after': 1}, 'y?'],
)  # fmt: skip


@pytest.mark.parametrize('piece', ['checklist', 'rubric', 'milestones'])
@pytest.mark.parametrize('value', BROKEN)
def test_a_list_of_the_task_that_cannot_be_read_is_a_fault(piece, value):
  text = '\n'.join(f'{k}: 1 "go?"' for k in (1, 2))
  weightless = piece == 'milestones' and value == [
    {'question': 'x?', 'weight': 0}
  ]
  if not weightless:  # a weight is nothing to milestones
    with pytest.raises(JudgeFault):
      registry.get('judge', piece).f(
        asked(with_task(**{piece: value}), Script(text))
      )


@pytest.mark.parametrize('piece', ['checklist', 'rubric', 'milestones'])
def test_a_task_without_a_list_is_a_fault(piece):
  with errors.raises(JudgeFault, f'{piece}'):
    registry.get('judge', piece).f(asked(WHOLE, Script('1: yes')))


@pytest.mark.parametrize(
  ('values', 'why'),
  [
    ({'weights': (1.0,)}, 'weights 1'),
    ({'weights': (1.0, -1.0)}, 'weights'),
    ({'weights': (0.0, 0.0)}, '0'),
    ({'after': (0, -1)}, '0'),
    ({'after': (-1, 1)}, '1'),
    ({'after': (1, -1)}, '-1'),
    ({'after': (-1,)}, 'after 1'),
    ({'questions': (), 'weights': (1.0,)}, 'weights 1'),
    ({'questions': ('x?', '')}, ''),
  ],
)
def test_a_list_of_the_config_is_checked_before_anything_runs(values, why):
  piece = registry.get('judge', 'checklist')
  values = piece.defaults | {'questions': ('x?', 'y?')} | values
  with errors.raises(ValueError, why):
    check(piece, values)


def check(piece, values):
  for name, domain in piece.domains.items():
    domain.check(name, values[name], values)


def test_lists_that_fit_are_right():
  piece = registry.get('judge', 'checklist')
  rows = [piece.defaults, {'questions': ('x?',)}, {'questions': ['x?', 'y?']}]
  rows[2] |= {'weights': (0.0, 2.0), 'after': [-1, 0]}
  for values in rows:
    check(piece, piece.defaults | values)


def rubric(text, *talk, questions=('Is it so?',), **options):
  item = item_of(*talk) if talk else WHOLE
  return checklists.rubric(
    asked(item, Script(text)), questions=questions, **options
  )


SAID = 'he wrote "no" and\nleft  at 10'


@pytest.mark.parametrize(
  'text',
  [
    '1: 0.5 "he wrote"',
    '1: 0.5 "wrote "no" and"',
    '1: 0.5 ""no""',
    '1: 0.5, as in "left at 10"',
    '1: 0.5 "and left at"',
    '1: 0.5 “left at 10”',
    '1: 0.5 “wrote “no” and”',
    '1: **0.5** "left',
    '1: 0.5 "at 10" in message 1',
    '1: 0.5/1 "he"',
    '1: 0.5 "go"',
    '{"1": "0.5 \\"wrote \\"no\\" and\\nleft\\""}',
  ],
)
def test_what_stands_in_the_conversation_earns_points(text):
  assert rubric(text, 'go', SAID, 'on', 'x') == 0.5


@pytest.mark.parametrize(
  'text',
  [
    '1: 0.5',
    '1: 0.5 ""',
    '1: 0.5 " "',
    '1: 0.5 "',
    '1: 0.5 "“”"',
    '1: 0.5 "she wrote"',
    '1: 0.5 "left at 10 on"',
    '1: 0.5 "go he"',
    '1: 0.5 "he wrote" and "at 10"',
    '1: 0.5 "[assistant] he wrote"',
    "1: 0.5 'he wrote'",
    '1: 0.5 he wrote',
  ],
)
def test_what_nobody_wrote_earns_none(text):
  """Least of all two messages put together."""
  with pytest.raises(JudgeFault):
    rubric(text, 'go', SAID, 'on', 'x')


def test_no_points_need_no_quote():
  assert rubric('1: 0', 'a', 'b') == 0.0
  assert rubric('1: 0 "invented"', 'a', 'b') == 0.0
  assert rubric('1: 0.0, for it never asks 2 things', 'a', 'b') == 0.0


@pytest.mark.parametrize(
  'text',
  ['1: 2 "b"', '1: -1 "b"', '1: yes "b"', '1: "b"', '1: "b" 0.5', '1: nan'],
)
def test_points_come_first_and_are_shares(text):
  with pytest.raises(JudgeFault):
    rubric(text, 'a', 'b')


def test_a_quote_has_to_stand_in_the_window():
  options = {'window': 1}
  assert rubric('1: 1 "stop"', **options) == 1.0
  with pytest.raises(JudgeFault):
    rubric('1: 1 "left"', **options)


@given(
  st.lists(
    st.tuples(st.integers(0, 100), st.integers(1, 9)), min_size=1, max_size=6
  )
)
def test_a_rubric_is_the_weighed_mean_of_its_points(rows):
  text = '\n'.join(f'{i}: {p / 100} "go?"' for i, (p, _) in enumerate(rows, 1))
  got = rubric(
    text,
    questions=tuple(f'Q{i}?' for i in range(len(rows))),
    weights=tuple(float(w) for _, w in rows),
  )
  total = sum(w for _, w in rows)
  assert got == pytest.approx(sum(p * w for p, w in rows) / 100 / total)


@given(
  st.integers(1, 7).flatmap(
    lambda turns: st.tuples(
      st.just(turns),
      st.lists(st.integers(0, turns), min_size=1, max_size=9),
    )
  )
)
def test_milestones_pay_once_and_add_up_to_the_share_that_is_reached(drawn):
  turns, reached = drawn
  item = item_of(*['o', 'm'] * turns)
  text = '\n'.join(f'{i}: {k or "never"}' for i, k in enumerate(reached, 1))
  questions = tuple(f'Q{i}?' for i in range(len(reached)))
  got = checklists.milestones(asked(item, Script(text)), questions=questions)
  share = [
    sum(0 < x <= k for x in reached) / len(reached) for k in range(turns + 1)
  ]
  np.testing.assert_allclose(got, np.diff(share), atol=1e-12)
  np.testing.assert_allclose(np.cumsum(got), share[1:], atol=1e-12)
  assert all(x >= 0 for x in got)


def test_milestones_are_read_in_every_form():
  ask = Script('1. **2**\n2) Never, as far as I see.\n3: 3.')
  questions = ('a?', 'b?', 'c?')
  wanted = [0.0, 1 / 3, 1 / 3]
  assert checklists.milestones(asked(WHOLE, ask), questions=questions) == wanted
  (prompt,) = ask.prompts
  assert f'\n2. [assistant] {TALK[3]}\n' in prompt
  assert '\n1. a?\n2. b?\n3. c?\n' in prompt
  in_json = Script('{"1": 2, "2": "never", "3": 3}')
  assert (
    checklists.milestones(asked(WHOLE, in_json), questions=questions) == wanted
  )
  in_words = Script('1: message 2\n2: never reached\n3: In message 3.')
  assert (
    checklists.milestones(asked(WHOLE, in_words), questions=questions) == wanted
  )


NO_TURNS = f"""
;0;4;-1;1.5;1/2;1-2;1 or 2;01;٣;³;1e0;{'9' * 400};{'9' * 5000};not message 1
message 4;no;null;nan;1st;50%
"""


@pytest.mark.parametrize('answer', cases(NO_TURNS))
def test_a_milestone_in_no_turn_is_a_fault(answer):
  for text in (f'1: {answer}', f'{{"1": {answer}}}', f'{{"1": "{answer}"}}'):
    with pytest.raises(JudgeFault):
      checklists.milestones(asked(WHOLE, Script(text)), questions=('a?',))


PIECES = {
  'checklist': checklists.checklist,
  'rubric': checklists.rubric,
  'milestones': checklists.milestones,
}


@pytest.mark.slow
@pytest.mark.parametrize('name', PIECES)
@settings(max_examples=300)
@given(text=ANSWERS, n=st.integers(1, 3))
def test_any_answer_whatever_gives_shares_or_a_fault(name, text, n):
  questions = ('a?', 'b?', 'c?')[:n]
  try:
    score = PIECES[name](asked(WHOLE, Script(text)), questions=questions)
  except ServiceFault:
    return
  assert all(map(is_share, score if name == 'milestones' else [score]))


@pytest.mark.parametrize('name', PIECES)
def test_a_service_that_gives_no_answer_is_a_fault(name):
  with pytest.raises(ServiceFault):
    PIECES[name](asked(WHOLE, Script(refuse)), questions=('a?',))
