"""Reflections: what they earn, and what an actor makes of them by retry."""

import json

import numpy as np
import pytest

from agentrl.env.worlds import door_codes, reflections
from agentrl.env.worlds.reflections import Reflections
from agentrl.text.message import Message
from tests import errors

TASK = {'door': 'ba', 'case': '', 'code': '31', 'notes': [], 'seen': ''}


class Actor:
  """Says what it is told to, one after another; keeps what it was asked."""

  def __init__(self, *answers):
    self.answers, self.asked = list(answers), []

  def __call__(self, messages, *, seed):
    assert 0 <= seed < 2**31
    self.asked.append(messages[-1].content)
    return self.answers.pop(0)


def played(actor, notes, task=TASK, **fields):
  family = Reflections(actor='service', **fields)
  env = family.served({'actor': actor}).env()
  seen = [env.reset(task, 0)]
  steps = []
  for note in notes:
    steps.append(env.step(note))
    seen.append(steps[-1].text)
  return seen, steps


def test_a_reflection_earns_the_next_return_less_the_last():
  # Returns of 0; .5, 0, .5 and 1 after the notes.
  actor = Actor('2', '3', '2', '1', '3', '3', '3', '1')
  seen, steps = played(actor, ['b3', 'a2', 'x', 'a1'], retries=4)
  assert seen == ['b2', 'b3\na2', 'b1', 'b3\na3', 'b3\na1']
  assert [x.reward for x in steps] == [0.5, -0.5, 0.5, 0.5]
  assert [x.done for x in steps] == [False, False, False, True]
  assert [x.score for x in steps] == [0, 0, 0, 1]
  assert [x.invalid for x in steps] == [False, False, True, False]
  total = {k: sum(x.info[k] for x in steps) for k in steps[0].info}
  assert total == {'at_first': 0, 'by_1': 0, 'by_2': 0, 'by_3': 0, 'by_4': 1}
  notes = ['', 'b3', 'b3\na2', 'b3\na2', 'b3\na1']
  rooms = ['b', 'b a', 'b', 'b a', 'b a']
  want = [
    f'Notes:\n{note}\n{door}' if note else door
    for note, doors in zip(notes, rooms, strict=True)
    for door in doors.split()
  ]
  assert actor.asked == want


def test_it_ends_with_the_last_retry_or_when_it_is_solved():
  _, steps = played(Actor('2', '1', '2'), ['b1', 'b2'], retries=2)
  assert [(x.done, x.score, x.reward) for x in steps] == [
    (False, 0, 0), (True, 0, 0),
  ]  # fmt: skip
  _, (step,) = played(Actor('2', '3', '1'), ['b3'], retries=3)
  assert (step.done, step.score, step.reward) == (True, 1, 1)
  assert step.info == {'at_first': 0, 'by_1': 1, 'by_2': 1, 'by_3': 1}


def test_of_what_is_solved_there_is_nothing_to_say():
  """The first attempt that fails is shown, of eight at most."""
  seen, (step,) = played(Actor('3', '1', '3', '1', '2', '3', '1'), ['b3'])
  assert seen[0] == 'b2'
  assert (step.reward, step.info['at_first']) == (1, 1)
  always = Actor(*['3', '1'] * 8, '2')
  seen, (step,) = played(always, ['b2'])
  assert (seen[0], step.reward) == ('b3\na1', -1)


def test_the_newest_note_of_a_door_is_read():
  actor = Actor('2', '1', '1', '3', '2')
  played(actor, ['b1', 'a2', 'b3'])
  assert actor.asked[-1] == 'Notes:\na2\nb3\na'


def test_controls_read_other_notes_or_none():
  actor = Actor(*'21111')
  played(actor, ['b3'] * 3, arm='none')
  assert actor.asked == ['b'] * 4
  codes = set()
  for seed in range(30):
    actor = Actor('2', '4')
    family = Reflections(actor='service', arm='random')
    env = family.served({'actor': actor}).env()
    env.reset(TASK, seed)
    env.step('b3')
    codes.add(actor.asked[-1])
  assert codes == {f'Notes:\nb{x}\nb' for x in '123'}


def by_retry(write, **fields):
  """The share solved by every retry, at which `write` says notes."""
  family = Reflections(**fields)
  tasks = [x.task for x in family.tasks('train', 300, 0)]
  rng, total = np.random.default_rng(0), []
  env = family.env()
  for seed, task in enumerate(tasks):
    text, done, sums = env.reset(task, seed), False, 0
    while not done:
      step = env.step(write(text.split('\n')[-1], rng))
      text, done = step.text, step.done
      sums = sums + np.array([step.info[f'by_{n + 1}'] for n in range(3)])
    total.append(sums)
  return np.mean(total, axis=0)


def test_true_reflections_open_doors_and_random_ones_do_not():
  codes = dict(zip('abc', Reflections().world.lasting(), strict=True))
  true = by_retry(lambda last, rng: f'{last[0]}{codes[last[0]]}')
  assert true[1] == true[2] == 1  # a note for each of two rooms
  assert true[0] > 0.3
  random = by_retry(lambda last, rng: f'{last[0]}{rng.integers(1, 4)}')
  none = by_retry(lambda last, rng: 'a1', arm='none')
  assert true[2] > random[2] + 0.3
  np.testing.assert_allclose(none, 1 - (8 / 9) ** np.arange(1, 4), atol=0.09)


def test_demonstrations_solve_their_task_with_one_who_follows():
  family = Reflections(rooms=3)
  for x in family.tasks('train', 30, 0):
    env = family.env()
    env.reset(x.task, 5)
    for note in x.demonstration:
      step = env.step(note)
      if step.done:
        break
    assert step.score == 1
    assert json.loads(json.dumps(x.task)) == x.task


def test_told_tasks_teach_both_parts():
  family = Reflections(told=True)
  env, kinds, codes = family.env(), set(), set()
  for x in family.tasks('train', 400, 0):
    seen = env.reset(x.task, 0)
    asked_for_note = bool(x.task['seen'])
    kinds.add(asked_for_note)
    (said,) = x.demonstration
    step = env.step(said)
    assert (step.done, step.score) == (True, 1)
    if asked_for_note:
      last = seen.split('\n')[-1]
      assert said[0] == last[0]
      codes.add((last[1], said[1]))
      assert env.step(f'{said[0]}9').score == 1  # of any code
      other = next(y for y in 'abc' if y != said[0])
    else:
      assert seen == door_codes.observation(x.task)
      other = next(y for y in '123' if y != said)
    assert env.step(other).score == 0
  assert kinds == {True, False}
  assert len(codes) == 9  # what failed says nothing of what is right


def test_an_actor_that_is_asked_for_is_given():
  with errors.raises(ValueError, 'actor'):
    Reflections(actor='service').env()
  act = reflections.follower(3)
  said = {act([Message('user', 'Notes:\nb3\na')], seed=n) for n in range(40)}
  assert said == {'1', '2', '3'}
  assert act([Message('user', 'Notes:\nb3\na2\nb')], seed=1) == '3'


@pytest.mark.parametrize('retries', [1, 4])
def test_columns_name_the_retries(retries):
  want = ('at_first', *(f'by_{n + 1}' for n in range(retries)))
  assert Reflections(retries=retries).columns == want
