"""Workflows: what is refused, what is played, by a policy that is counted."""

import json

import pytest

from agentrl.lab import archive
from agentrl.lab.archive import Archive, Entry
from agentrl.lab.papers.adas import scripted, study
from agentrl.lab.papers.adas import workflow as lib
from agentrl.text.message import Message

TASK = lib.Task((2, 3, 4), 20)


def flow(*steps, answer='closest'):
  return {'steps': list(steps), 'answer': answer}


def sample(n):
  return {'do': 'sample', 'n': n}


def revise(n):
  return {'do': 'revise', 'n': n}


def keep(n, by='closest'):
  return {'do': 'keep', 'n': n, 'by': by}


class Policy:
  """Says what it is told to, one after another; keeps what it was asked."""

  def __init__(self, *answers):
    self.answers, self.asked, self.seeds = list(answers), [], []

  def __call__(self, messages, *, seed):
    self.asked.append(messages[-1].content)
    self.seeds.append(seed)
    return self.answers.pop(0)


@pytest.mark.parametrize(
  ('text', 'value'),
  [
    ('2+3*4', 20),
    ('4-3*2', 2),
    ('2+3', None),
    ('2+3*4*4', None),
    ('2+3*5', None),
    ('2+(3*4)', None),
    ('', None),
    ('2**3*4', None),
    ('-2+3*4', None),
    ('2+3*4 ', None),
    ('9' * 5000, None),
  ],
)
def test_an_expression_uses_each_number_once_from_left_to_right(text, value):
  assert lib.value_of(text, TASK) == value


@pytest.mark.parametrize(
  'made',
  [
    'x',
    '[' * 5000,
    [],
    {'steps': [sample(1)]},
    flow(),
    flow(sample(0)),
    flow(sample(True)),
    flow(sample(lib.CALLS + 1)),
    flow(sample(1), {'do': 'run', 'n': 1}),
    flow(sample(1) | {'code': 'x'}),
    flow(sample(1), keep(1, 'luck')),
    flow(revise(1)),
    flow(keep(1), revise(1), sample(1)),
    flow(keep(1)),
    flow(sample(1), answer='first'),
    flow({'do': 'repeat', 'times': 13, 'steps': [sample(2)]}),
    flow({'do': 'repeat', 'times': 2, 'steps': []}),
  ],
)
def test_what_is_not_a_workflow_is_refused_before_any_call(made):
  text = made if isinstance(made, str) else json.dumps(made)
  read, wrong = lib.parsed(text)
  assert (read, bool(wrong)) == ({}, True)


def test_too_deep_repeats_are_refused():
  step = sample(1)
  for _ in range(6):
    step = {'do': 'repeat', 'times': 1, 'steps': [step]}
  assert lib.parsed(json.dumps(flow(step)))[1]


def test_steps_are_played_in_their_order():
  made = flow(
    sample(2),
    {'do': 'repeat', 'times': 2, 'steps': [keep(1), revise(2)]},
  )
  assert lib.parsed(json.dumps(made)) == (made, '')
  assert lib.calls(made['steps']) == 6
  policy = Policy('2*3*4', 'x', '2*3+4', '3*4-2', '4+3*2', '2+4*3')
  solved, calls = lib.play(made, TASK, policy, 5)
  # 24; then 10 and 10, farther; the oldest of equals stays.
  assert (solved, calls) == (False, 6)
  begin = 'Make 20 of 2 3 4.'
  assert policy.asked == [begin] * 2 + [f'{begin}\nRevise: 2*3*4 makes 24.'] * 4
  assert policy.seeds == [5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize(
  ('answer', 'solved'),
  [('closest', True), ('newest', False), ('common', False)],
)
def test_answers(answer, solved):
  policy = Policy('2*3*4', '2+3*4', '4*3*2')
  made = flow(sample(3), answer=answer)
  assert lib.play(made, TASK, policy, 0) == (solved, 3)
  nothing = Policy('x', 'y', 'z')
  assert lib.play(made, TASK, nothing, 0) == (False, 3)


def test_each_attempt_is_revised_in_turn_and_the_newest_stay():
  policy = Policy('2*3*4', '2+3*4', 'x', '4*3*2', '4-3-2')
  made = flow(sample(2), revise(3), keep(2, 'newest'), answer='closest')
  assert lib.play(made, TASK, policy, 0) == (False, 5)
  about = [x.split('\n')[1].split()[1] for x in policy.asked[2:]]
  assert about == ['2*3*4', '2+3*4', '2*3*4']


def test_the_policy_writes_in_form_and_revises_one_place():
  task = scripted.tasks(5, 1, 3)[0]
  asked = [Message('user', lib.question(task))]
  texts = [scripted.policy(asked, seed=n) for n in range(50)]
  assert all(lib.value_of(x, task) is not None for x in texts)
  assert len({*texts}) > 40
  for text in texts:
    value = lib.value_of(text, task)
    again = lib.question(task, lib.Attempt(text, value))
    new = scripted.policy([Message('user', again)], seed=7)
    made = lib.value_of(new, task)
    assert made is not None
    differ = sum(a != b for a, b in zip(text, new, strict=False))
    assert len(text) != len(new) or differ <= 4
  for x in scripted.tasks(4, 30, 5):
    assert len(x.numbers) == 4
    assert 0 < x.target <= 300


def test_proposals_change_a_workflow_and_most_are_in_form():
  entries = [Entry(x, 0.1, 1, '24 calls') for x in study.FIRST.values()]
  asked = archive.messages(
    Archive((*entries, Entry('{', 0, 1, 'refused: ...')))
  )
  for propose in study.PROPOSERS.values():
    texts = [propose(asked, seed=n) for n in range(200)]
    right = [x for x in texts if not lib.parsed(x)[1]]
    assert len({*right}) > 20
    assert len(right) < 200  # a search has to bear others
  assert scripted.draw(asked, seed=3) == scripted.draw([], seed=3)
