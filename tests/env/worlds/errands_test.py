"""Errands: what is told, what is asked, and what a note has to hold."""

import pytest

from agentrl.env.worlds.errands import (
  PEOPLE,
  THINGS,
  Errands,
  answer,
)
from tests.env.promises import refuses

TASK = {'who': [0, 4, 1], 'wanted': [2, 1, 0], 'asked': [1, 4]}
HEARD = ['Bob Eve', 'Ann: rope', 'Eve: ink', 'Bob: tea', 'Bob?', 'Eve?']


def play(messages, task=TASK):
  env = Errands(people=3).env()
  texts, steps = [env.reset(task, 0)], []
  for message in messages:
    steps.append(env.step(message))
    texts.append(steps[-1].text)
  return texts, steps


def test_wishes_are_told_once_and_asked_at_the_end():
  texts, steps = play(['ok', 'ok', 'ok', 'ok', 'tea', 'ink'])
  assert texts == [*HEARD, '']
  assert [x.reward for x in steps] == [0, 0, 0, 0, 0.5, 0.5]
  assert [x.done for x in steps] == [False] * 5 + [True]
  assert steps[-1].score == 1.0
  assert [x.info['asks'] for x in steps] == [0, 0, 0, 0, 1, 1]
  assert not any(x.invalid for x in steps)


@pytest.mark.parametrize(
  ('said', 'right', 'invalid'),
  [
    ('Tea.', True, False),
    ('rope', False, False),
    ('tea ink', False, True),
    ('', False, True),
    ('ok', False, True),
  ],
)
def test_answers(said, right, invalid):
  _, steps = play(['x'] * 4 + [said, 'rope'])
  assert steps[4].reward == (0.5 if right else 0.0)
  assert steps[4].invalid == invalid
  assert steps[5].score == (0.5 if right else 0.0)
  assert not steps[5].invalid
  assert not any(x.invalid for x in steps[:4])  # to wishes all may be said


@pytest.mark.parametrize(
  ('seen', 'note'),
  [(1, 'Bob Eve'), (2, 'Bob Eve'), (3, 'Bob Eve ink'), (4, 'Bob tea Eve ink')],
)
def test_notes_hold_what_will_be_asked(seen, note):
  assert Errands(people=3).summary(TASK, HEARD[:seen]) == note


def test_a_demonstration_answers_from_what_was_told():
  family = Errands(people=7, asked=3, things=5)
  for made in family.tasks('train', 50, 3):
    task, shown = made.task, made.demonstration
    texts, steps = play(shown, task)
    told = dict(x.split(': ') for x in texts if ': ' in x)
    asked = [x.removesuffix('?') for x in texts if x.endswith('?')]
    assert [told[x] for x in asked] == list(shown[-3:])
    assert asked == texts[0].split()
    assert steps[-1].score == 1.0
    assert len(shown) == 11
    assert len(told) == 7
    assert set(told) <= set(PEOPLE)
    assert set(told.values()) <= set(THINGS[:5])
    assert [answer(task, x) for x in task['asked']] == list(shown[-3:])


def test_settings_that_cannot_be():
  refuses(Errands, people=[0, 11], asked=[0, 6], things=[1, 9])
