"""Door codes: tasks, grades, and what a scripted writer infers."""

import json

import numpy as np
import pytest

from agentrl.env.worlds import door_codes
from agentrl.env.worlds.door_codes import DoorCodes
from agentrl.recall import operations
from agentrl.text.message import Message

ONE = {'door': 'c', 'case': 41, 'code': 2, 'notes': []}


def test_lasting_codes_are_the_same_in_all_tasks():
  family = DoorCodes(doors=3, codes=5, table=4)
  codes = family.lasting()
  assert len({*codes}) == 3
  for split in ('train', 'test'):
    tasks = [x.task for x in family.tasks(split, 60, 1)]
    assert {x['door'] for x in tasks} == {*'abc'}
    for task in tasks:
      assert task['code'] == codes['abc'.index(task['door'])]
      assert door_codes.observation(task) == f'{task["case"]} {task["door"]}'


def test_told_tasks_have_codes_of_their_own_and_notes_of_some():
  family = DoorCodes(doors=4, codes=4, told=True)
  made = list(family.tasks('train', 2000, 0))
  count = np.zeros((4, 5))
  told = []
  for x in made:
    task, note = x.task, f'{x.task["door"]}{x.task["code"]}'
    assert x.demonstration == (note[1],)
    told.append(note in task['notes'])
    assert len({y[0] for y in task['notes']}) == len(task['notes'])
    assert told[-1] == (task['door'] in {y[0] for y in task['notes']})
    count['abcd'.index(note[0]), task['code']] += 1
  # Of each door all codes equally often, so that none can be learned by heart.
  assert abs(np.mean(told) - 0.5) < 4 * np.sqrt(0.25 / 2000)
  np.testing.assert_allclose(count[:, 1:] / 2000, 1 / 16, atol=0.022)


def test_what_is_read_is_what_notes_and_a_task_are():
  task = ONE | {'notes': ['a3', 'c2']}
  assert DoorCodes().env().reset(task, 0) == 'Notes:\na3\nc2\n41 c'


@pytest.mark.parametrize(
  ('said', 'score', 'invalid'),
  [('2', 1, False), (' 2\n', 1, False), ('3', 0, False), ('4', 0, True),
   ('22', 0, True), ('', 0, True), ('c2', 0, True)],
)  # fmt: skip
def test_grades(said, score, invalid):
  for notes in ([], ['c2']):
    env = DoorCodes().env()
    env.reset(ONE | {'notes': notes}, 0)
    step = env.step(said)
    assert (step.score, step.reward, step.done) == (score, score, True)
    assert step.invalid == invalid
    assert step.info == {'noted': float(bool(notes))}


def test_rooms_open_one_after_another():
  family = DoorCodes(rooms=3, numbered=False)
  made = list(family.tasks('train', 60, 0))
  codes = {
    door: str(x) for door, x in zip('abc', family.lasting(), strict=True)
  }
  assert len({x.task['door'] for x in made}) > 20
  for x in made:
    doors = x.task['door']
    right = x.demonstration
    assert right == tuple(codes[door] for door in doors)
    env = family.env()
    seen, rewards = env.reset(x.task, 0), []
    for k, said in enumerate(right):
      assert seen == doors[k]  # the next one is not told before
      step = env.step(said)
      seen, rewards = step.text, [*rewards, step.reward]
    assert (step.done, step.score) == (True, 1)
    np.testing.assert_allclose(rewards, 1 / 3)
    env.reset(x.task, 0)
    assert not env.step(right[0]).done
    wrong = env.step(next(y for y in '123' if y != right[1]))
    assert (wrong.done, wrong.score, wrong.reward) == (True, 0, 0)


def asked(entries, attempts, writer=door_codes.lesson):
  """What a writer says of attempts at door b, after notes that name doors."""
  seen = '[user] Notes:\na1\nb4\n417 b\n\n[assistant] {}'
  tried = [(seen.format(code), solved) for code, solved in attempts]
  text = operations.question('Compare.', entries, tried)
  return json.loads(writer([Message('user', text)], seed=0))


MIXED = [(1, False), (3, True), (4, False), (3, True)]


@pytest.mark.parametrize(
  ('entries', 'attempts', 'want'),
  [
    ({}, MIXED, [('ADD', 'b3', None)]),
    ({0: 'a1', 4: 'b3'}, MIXED, [('NOOP', None, None)]),
    ({2: 'a1', 5: 'b4'}, MIXED, [('UPDATE', 'b3', 5)]),
    ({2: 'b3', 5: 'b4'}, MIXED, [('DELETE', None, 5)]),
    ({2: 'b1', 5: 'b4'}, MIXED,
     [('UPDATE', 'b3', 2), ('DELETE', None, 5)]),
    ({}, [(1, False), (2, False)], [('NOOP', None, None)]),
  ],
)  # fmt: skip
def test_a_lesson_is_the_code_of_what_was_solved(entries, attempts, want):
  got = asked(entries, attempts)
  assert [(x['op'], x.get('text'), x.get('entry')) for x in got] == want


def test_lessons_are_of_every_room_that_was_left():
  tries = [
    ('[user] b\n\n[assistant] 3\n[user] c\n[assistant] 1', False),
    ('[user] b\n[assistant] 2', False),
    ('[user] b\n[assistant] 3\n[user] c\n[assistant] 2\n'
     '[user] b\n[assistant] x', False),
    ('[user] 7 a\n[assistant] 1', True),
  ]  # fmt: skip
  text = operations.question('Compare.', {4: 'b3', 5: 'c1'}, tries)
  got = json.loads(door_codes.lesson([Message('user', text)], seed=0))
  assert got == [
    {'op': 'ADD', 'text': 'a1'},
    {'op': 'UPDATE', 'entry': 5, 'text': 'c2'},
  ]


def test_shuffled_lessons_name_the_door_beside():
  shuffled = door_codes.shuffled_lesson
  assert asked({}, MIXED, shuffled) == [{'op': 'ADD', 'text': 'a3'}]
  assert asked({3: 'a3', 4: 'b2'}, MIXED, shuffled) == [{'op': 'NOOP'}]
