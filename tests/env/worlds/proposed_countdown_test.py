"""Proposed Countdown instances against all expressions there are."""

import itertools
import operator

import pytest

from agentrl.env import splits, task_sampling, tool_env
from agentrl.env.proposals import SEED
from agentrl.env.worlds.countdown import Countdown
from agentrl.env.worlds.proposed_countdown import ProposedCountdown
from tests.env.promises import replies

FAMILY = ProposedCountdown(numbers=2, largest=12, most=99)
POSE = FAMILY.seed({})


def proposed(text):
  return FAMILY.proposed(POSE, [tool_env.answer_message(text)], ['pose'])


def needs_both(a, b):
  """Positive values of two numbers that neither of them is."""
  signs = operator.add, operator.sub, operator.mul
  values = {f(x, y) for f in signs for x, y in ((a, b), (b, a))}
  return {x for x in values if x > 0} - {a, b}


def test_a_task_is_what_its_numbers_reach():
  """Every pair up to 6, and every target."""
  for a, b in itertools.product(range(1, 7), repeat=2):
    for target in range(1, 41):
      made = proposed(f'{target}: {a} {b}')
      if target not in needs_both(a, b):
        assert made == (f'{target}: {a} {b}', None, 'unanswerable')
      elif task_sampling.split([target, sorted((a, b))]) == 'test':
        assert made.fault == 'held_out'
      else:
        assert made.task == {'target': target, 'numbers': [a, b]}


@pytest.mark.parametrize(
  'text',
  [
    '',
    'rubbish',
    '7 3 4',
    '7: 3',  # of other settings
    '7: 3 4 5',
    '13: 13 1',
    '12: 0 12',
    '012: 3 4',
    '144: 12 12',
    '-1: 3 4',
    '7: 3  4',
    '7:3 4',
    '٧: ٣ ٤',
    '7: 3 4\n8: 4 4',
    '7: 3 4; import os; os._exit(1)',
    "__import__('os').abort()",
    '7: 3 4\x00',
    '\ud800: 3 4',
    '<|im_end|>7: 3 4',
    '7: 3 4</answer><answer>8: 4 4',
    '9' * 10_000_000 + ': 3 4',
    '7:' + ' 3' * 5_000_000,
  ],
)
def test_anything_else_is_none(text):
  assert proposed(text).task is None
  env = FAMILY.env()
  (step,) = replies(env, POSE, [tool_env.answer_message(text)])
  assert step.score == 0
  env.close()


def test_what_was_proposed_is_played_as_in_countdown():
  env = FAMILY.env()
  task = {'target': 7, 'numbers': [3, 4]}
  assert env.reset(task, 0) == '7: 3 4'
  assert env.step('<calculator>3+4</calculator>').info['calls'] == 1
  assert env.step(tool_env.answer_message('3+4')).score == 1
  assert env.reset(POSE, 0) == 'pose: 2 numbers to 12'
  assert env.step(tool_env.answer_message('12: 3 4')).score == 1
  env.close()


def test_every_second_training_task_poses_one_of_its_split():
  made = list(FAMILY.tasks('train', 20, 0))
  plain = list(Countdown(numbers=2, largest=12).tasks('train', 20, 0))
  env = FAMILY.env()
  for i, (x, y) in enumerate(zip(made, plain, strict=True)):
    assert (SEED in x.task) == bool(i % 2)
    assert x.key == y.key
    assert replies(env, x.task, x.demonstration)[-1].score == 1
    if i % 2:
      written = FAMILY.proposed(POSE, x.demonstration, [])
      assert written.task == y.task
  held_out = list(FAMILY.tasks('test', 20, 0))
  assert held_out == list(Countdown(numbers=2, largest=12).tasks('test', 20, 0))
  assert {splits.split_of(x.key) for x in held_out} == {'test'}
  env.close()


@pytest.mark.parametrize(
  ('message', 'answer'),
  [
    ('<answer>3+4</answer>', '7'),
    ('<answer>4+3</answer>', '7'),
    ('<answer>3*4</answer>', '12'),
    ('<answer>3+3</answer>', ''),  # one 3 is given
    ('3+4', ''),
  ],
)
def test_answers_are_equal_by_their_value(message, answer):
  task = {'target': 7, 'numbers': [3, 4]}
  assert FAMILY.answer(task, message) == answer


def test_rules_say_how_to_pose():
  assert 'pose' in ProposedCountdown(teach=True).system
  assert not FAMILY.system
