"""Verdicts: what is put to the judge, and what comes of its answer."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl import registry
from agentrl.judge import verdicts
from agentrl.judge.item import JudgeFault
from agentrl.service.base import ServiceFault
from tests.judge.items import (
  ANSWERS,
  TALK,
  WHOLE,
  Script,
  asked,
  is_share,
  item_of,
  refuse,
)

OF_TURNS = (verdicts.number, verdicts.potential, verdicts.grade)


@pytest.mark.parametrize('piece', OF_TURNS)
@pytest.mark.parametrize('turn', [-1, 0, 1, 2])
def test_the_judge_sees_the_turn_and_nothing_after_its_answer(piece, turn):
  script = Script('1' if piece is not verdicts.grade else 'B')
  piece(asked(WHOLE._replace(turn=turn), script), question='Is it new?')
  (prompt,) = script.prompts
  seen = len(TALK) if turn < 0 else 2 * turn + 3
  for i, text in enumerate(TALK):
    assert (text in prompt) is (i < seen)
  assert prompt.index('[user] go?') < prompt.index('[assistant] left')
  assert prompt.index(TALK[0]) < prompt.index('Is it new? Answer with')


@pytest.mark.parametrize('piece', OF_TURNS)
def test_a_window_hides_what_was_long_ago(piece):
  script = Script('A 1')
  with pytest.raises(JudgeFault):
    piece(asked(WHOLE, Script('')), window=1)
  if piece is verdicts.grade:
    script = Script('A')
  piece(asked(WHOLE, script), window=1)
  assert [x in script.prompts[0] for x in TALK] == [False] * 4 + [True] * 2


@given(
  st.integers(0, 1000), st.sampled_from([1.0, 3.0, 10.0, 100.0, 1000.0, 2.5])
)
def test_a_number_is_read_on_the_scale_that_is_put(x, most):
  value = x / 1000 * most
  for piece in (verdicts.number, verdicts.potential):
    script = Script(lambda prompt: f'I say {value:.6f}.')
    got = piece(asked(WHOLE, script), most=most)
    assert got == pytest.approx(x / 1000, abs=1e-6)
    assert f'from 0 to {most:g}' in script.prompts[0]
    # Whoever answers with the end that is written there means the end.
    echo = Script(lambda prompt: prompt.split(' to ')[-1])
    assert piece(asked(WHOLE, echo), most=most) == 1.0


@pytest.mark.parametrize('n', [2, 3, 5])
def test_grades_are_evenly_spaced_from_one_to_zero(n):
  grades = ('top', 'fair', 'so-so', 'weak', 'none')[:n]
  got = [
    verdicts.grade(asked(WHOLE, Script(f'It is {x}.')), grades=grades)
    for x in grades
  ]
  assert got == pytest.approx([1 - i / (n - 1) for i in range(n)])
  script = Script(grades[0])
  verdicts.grade(asked(WHOLE, script), grades=grades)
  assert f'Answer with one of {", ".join(grades)}.' in script.prompts[0]


@pytest.mark.parametrize('least', [('A',), ('A', 'A'), ()])
def test_grades_are_two_different_ones_at_least(least):
  piece = registry.get('judge', 'grade')
  assert piece.domains['grades'].mistake(least, {})
  assert not piece.domains['grades'].mistake(('A', 'B'), {})


LABELS = {'good': 1.0, 'bad': 0.0, 'Yes.': 1.0, 'no': 0.0, '**good**': 1.0}
NONE = ['', 'neither', 'good/bad', '0.5', 'not sure']


@given(
  st.lists(st.sampled_from([*LABELS, *NONE, None]), min_size=1, max_size=8)
)
def test_turns_that_are_left_out_or_unclear_have_no_score(labels):
  whole = item_of(*(f'{x}{k}' for k in range(len(labels)) for x in 'om'))
  text = '\n'.join(
    f'{k}: {x}' for k, x in enumerate(labels, 1) if x is not None
  )
  wanted = [LABELS.get(x, math.nan) for x in labels]
  if all(map(math.isnan, wanted)):
    with pytest.raises(JudgeFault):
      verdicts.attribution(asked(whole, Script(text)))
  else:
    got = verdicts.attribution(asked(whole, Script(text)))
    assert got == pytest.approx(wanted, nan_ok=True)


def test_attribution_numbers_the_messages_and_tells_the_outcome():
  script = Script('{"1": "good", "3": "bad"}')
  got = verdicts.attribution(asked(WHOLE._replace(outcome=0.25), script))
  assert got == pytest.approx([1.0, math.nan, 0.0], nan_ok=True)
  (prompt,) = script.prompts
  for k in (1, 2, 3):
    assert f'\n{k}. [assistant] {TALK[2 * k - 1]}\n' in prompt
  assert 'scored 0.25' in prompt
  assert 'scored nan' in attribution_prompt(math.nan)


def attribution_prompt(outcome):
  script = Script('1: good')
  verdicts.attribution(asked(item_of('a', 'b', outcome=outcome), script))
  return script.prompts[0]


@pytest.mark.parametrize('text', ['1: good\n1: bad', '4: good', '0: good'])
def test_an_attribution_that_contradicts_itself_is_none(text):
  with pytest.raises(JudgeFault):
    verdicts.attribution(asked(WHOLE, Script(text)))


FORMS = {
  'number': verdicts.number,
  'of_ten': lambda x: verdicts.number(x, most=10.0),
  'potential': verdicts.potential,
  'grade': verdicts.grade,
  'attribution': verdicts.attribution,
}


@pytest.mark.parametrize('name', FORMS)
@settings(max_examples=300)
@given(text=ANSWERS)
def test_any_answer_whatever_gives_shares_or_a_fault(name, text):
  try:
    score = FORMS[name](asked(WHOLE, Script(text)))
  except ServiceFault:
    return
  if name == 'attribution':
    assert len(score) == 3
    assert all(is_share(x) or math.isnan(x) for x in score)
  else:
    assert is_share(score)


@pytest.mark.parametrize('name', FORMS)
def test_a_service_that_gives_no_answer_is_a_fault(name):
  with pytest.raises(ServiceFault):
    FORMS[name](asked(WHOLE, Script(refuse)))
