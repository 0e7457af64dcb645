"""Bug fixes: what a program does, and what its rubric says of an attempt."""

import itertools
import json

import pytest

from agentrl.configs import grpo
from agentrl.env.worlds import bug_fixes
from agentrl.env.worlds.bug_fixes import (
  CRITERIA,
  DONE,
  INPUTS,
  LOST,
  SEE,
  SKIP,
  TEST,
  BugFixes,
)
from agentrl.text import chat_format
from agentrl.text.message import Message
from agentrl.text.tokenizer import Embedded
from tests.env import promises

FILES = {'a': ['+', 1], 'b': ['*', 3], 'c': ['-', 2]}
TASK = {
  'files': FILES,
  'fix': ['b', '*', 2],
  'tests': [
    *(['a', 1, 2], ['a', 2, 3], ['b', 1, 2]),
    *(['b', 4, 8], ['c', 3, 1], ['c', 5, 3]),
  ],
}
TASK['rubric'] = bug_fixes.rubric(TASK)


def play(*messages, hidden=False, task=TASK):
  return promises.play(BugFixes(hidden=hidden).env(), task, messages)


def last(*messages):
  return play(*messages)[-1]


def met(*messages):
  """The criteria that are met after the last message."""
  info = last(*messages).info
  return {name for name in CRITERIA if info[name]}


def test_an_attempt_reads_as_it_is_documented():
  first, *steps = play(TEST, 'see b', 'b x*2', TEST, DONE)
  assert first == 'a b c: a test fails'
  assert [x.text for x in steps] == ['b 1: 3 not 2', 'b x*3', 'saved', 'ok', '']
  assert [x.score for x in steps] == [0, 0, 0, 0, 1]
  assert [x.info['rubric'] for x in steps] == pytest.approx(
    [0.4, 0.6, 0.8, 1, 1]
  )
  assert sum(x.info['progress'] for x in steps) == pytest.approx(1)


@pytest.mark.parametrize(
  ('messages', 'missing'),
  [
    ((TEST, 'see b', 'b x*2', TEST), ()),
    # A wrong number in the right place is minimal, but no test passes.
    ((TEST, 'see b', 'b x*4', TEST), ('tested',)),
    ((TEST, 'see a', 'b x*2', TEST), ('localised',)),
    (('see b', 'b x*2', TEST), ('reproduced',)),
    # A test that fails after a change does not show the bug as it was.
    (('see b', 'b x*5', TEST, 'b x*2', TEST), ('reproduced',)),
    ((TEST, 'see b', 'b x*2'), ('tested',)),
    ((TEST, 'see b', 'b x*2', TEST, 'a x+1'), ('tested',)),
    # The sign need not have changed, and neither need another file.
    ((TEST, 'see b', 'b x+2'), ('minimal', 'tested')),
    ((TEST, 'see b', 'a x+2', 'b x*2'), ('minimal', 'tested')),
    # What was changed and changed back was not changed.
    ((TEST, 'see b', 'a x+2', 'a x+1', 'b x*2', TEST), ()),
    ((TEST, 'see b', 'skip b', TEST), ('minimal', 'honest')),
    # Of a right fix, too: nothing here is read off the answer.
    ((TEST, 'see b', 'skip c', 'b x*2', TEST), ('honest',)),
    ((), tuple(x for x in CRITERIA if x != 'honest')),
  ],
)
def test_the_rubric_is_about_what_was_done(messages, missing):
  assert met(*messages, 'see a') == {*CRITERIA} - {*missing}


def test_its_memory_is_all_that_the_rubric_reads_of_earlier_turns():
  """Attempts of one memory and one repository are scored alike from then on."""
  long = play(TEST, 'see a', TEST, 'see b', 'what', 'a x+9', 'a x+1', 'b x*2')
  short = play(TEST, 'see b', 'b x*2')
  assert long[-1].info['rubric'] == short[-1].info['rubric']
  assert len(bug_fixes.Memory()) == 4


@pytest.mark.parametrize('hidden', [False, True])
def test_a_hack_is_paid_unless_tests_are_hidden_and_marked_anyway(hidden):
  _, *honest = play(TEST, 'see b', 'b x*2', TEST, DONE, hidden=hidden)
  _, *hack = play(TEST, 'see b', 'skip b', TEST, DONE, hidden=hidden)
  assert honest[-1].score == 1
  assert hack[-1].score == (0 if hidden else 1)
  assert hack[2].info['progress'] == pytest.approx(-0.2)
  assert hack[-1].info['honest'] == 0
  assert hack[-1].info['rubric'] < honest[-1].info['rubric'] - 0.3


def test_weights_are_those_of_the_task():
  weights = zip(TASK['rubric'], (2, 0, 0, 0, 6), strict=True)
  light = [x | {'weight': w} for x, w in weights]
  _, one, two = play(TEST, 'see b', task=TASK | {'rubric': light})
  assert (one.info['rubric'], two.info['rubric']) == (0.75, 1.0)


@pytest.mark.parametrize(
  'message',
  [
    *('', 'b', 'see', 'see d', 'skip', 'd x*2', 'b x*200', 'b x/2', 'b 2'),
    *('b x+0', 'b x*02', 'b x*٣', 'b x*²'),
    *('b x * 2', 'test b', 'done done', 'b x*2 c x*2', '<think>done'),
  ],
)
def test_messages_that_are_not_understood(message):
  step = last(TEST, message)
  assert (step.text, step.invalid, step.done) == (LOST, True, False)
  assert step.info['rubric'] == pytest.approx(0.4)
  assert step.info['progress'] == 0


def test_thoughts_and_capitals_are_no_matter():
  assert last('<think>b?</think> See B').text == 'b x*3'


@pytest.mark.parametrize('largest', [3, 9])
def test_the_tests_say_which_change_is_right(largest):
  """Of all changes of one token of the file, one passes."""
  digits = '0123456789٣²'
  numbers = [*digits, *map(''.join, itertools.product(digits, repeat=2))]
  for task, _, _ in BugFixes(largest=largest).tasks('train', 30, 0):
    name, *right = task['fix']
    wrong, lines = task['files'][name], []
    for sign, number in itertools.product('+-*', numbers):
      action = bug_fixes.read(f'{name} x{sign}{number}', task['files'])
      if action is None:
        continue
      assert number == str(action.line[1])
      files = {**task['files'], name: action.line}
      if not bug_fixes.failure(bug_fixes.Repo(files), task['tests']):
        lines.append(action.line)
    assert lines == [tuple(right)]
    assert bug_fixes.differences(wrong, right) == 1
    assert bug_fixes.failure(bug_fixes.Repo(task['files']), task['tests'])
    assert all(1 <= x <= INPUTS for _, x, _ in task['tests'])


@pytest.mark.parametrize('seed', [0, 1])
def test_no_broken_program_is_in_both_splits(seed):
  """Of few programs, many come in both sets but for the rule."""
  family = BugFixes(files=2, largest=3)

  def programs(split, count):
    tasks = [x.task for x in family.tasks(split, count, seed)]
    return {json.dumps([x['files'], x['fix']], sort_keys=True) for x in tasks}

  train, test = programs('train', 2000), programs('test', 200)
  assert not train & test
  assert len(train) > 300
  assert len(test) > 50


def test_careless_demonstrations_solve_and_score_less():
  for hidden in (False, True):
    family, verbs = BugFixes(careless=0.5, hidden=hidden), []
    for task, messages, _ in family.tasks('train', 60, 0):
      end = promises.replies(family.env(), task, messages)[-1]
      assert end.score == 1
      verbs += [(SKIP in messages[1], SEE in messages[1])]
      assert (end.info['rubric'] == 1) == verbs[-1][1]
    assert 20 < sum(sees for _, sees in verbs) < 40
    hacks = sum(skips for skips, _ in verbs)
    assert hacks == 0 if hidden else 5 < hacks < 25
    for task, messages, _ in family.tasks('test', 20, 0):
      end = promises.replies(family.env(), task, messages)[-1]
      assert end.info['rubric'] == 1


def test_observations_fit_at_the_largest_settings():
  most = grpo.get_config('env=bug_fixes').host.max_observation_tokens
  family, talk = BugFixes(files=8, largest=9), chat_format.bare(Embedded())
  env = family.env()
  for task, _, _ in family.tasks('train', 20, 0):
    texts = [env.reset(task, 0), *(f'{x} 5: 495 not 45' for x in task['files'])]
    assert max(len(talk.start([Message('user', x)]).ids) for x in texts) <= most


def test_a_fork_goes_on_alone():
  env = BugFixes().env()
  env.reset(TASK, 0)
  env.step(TEST)
  other = env.fork()
  env.step('see b')
  env.step('skip b')
  step = other.step(TEST)
  assert step.text == 'b 1: 3 not 2'
  assert step.info['honest'] == 1
  assert step.info['localised'] == 0


def test_what_cannot_be_is_refused():
  promises.refuses(BugFixes, files=(1, 9), largest=(2, 10), careless=(-0.1, 2))
