"""What every family whose tasks are proposed has in common."""

import time

import pytest

from agentrl.env import base, proposals
from agentrl.env.worlds.countdown import Countdown
from agentrl.env.worlds.proposed_countdown import ProposedCountdown


class Said:
  """Answers with its name, and what it was told."""

  def __init__(self, name):
    self._name, self.closed = name, False

  def reset(self, task, seed):
    return f'{self._name} {task} {seed}'

  def step(self, message):
    return base.Step(f'{self._name} {message}', done=message == 'end')

  def close(self):
    self.closed = True


def test_each_role_plays_where_its_task_is():
  proposer, solver = Said('p'), Said('s')
  env = proposals.RoleEnv(proposer, solver)
  assert env.reset({proposals.SEED: 1}, 3) == "p {'seed': 1} 3"
  assert env.step('x').text == 'p x'
  assert env.reset({'target': 1}, 4) == "s {'target': 1} 4"
  assert env.step('x').text == 's x'
  env.close()
  assert proposer.closed
  assert solver.closed


def test_what_a_proposer_read_stands_before_what_it_wrote():
  env = proposals.Heard(Said('p'))
  env.reset({}, 0)
  env.step('a')
  env.step('end')
  assert env.messages == ['a', 'end']
  assert env.observations == ['p {} 0', 'p a', 'p end']
  env.reset({}, 1)
  assert (env.messages, env.observations) == ([], ['p {} 1'])


@pytest.mark.parametrize(
  ('messages', 'text'),
  [
    (['<answer> 24: 4 6 </answer>'], '24: 4 6'),
    (['<answer>a</answer>', '<answer>b</answer>'], 'b'),
    (['<think><answer>a</answer></think>no'], ''),
    (['<answer>a</answer><answer>b</answer>'], ''),
    (['24: 4 6'], ''),
    ([], ''),
    (['<answer>' + 'x' * (proposals.MOST + 1) + '</answer>'], ''),
    (['x' * proposals.LONGEST + '<answer>a</answer>'], ''),
  ],
)
def test_a_proposal_is_the_one_short_answer_that_ends_a_message(messages, text):
  assert proposals.written(messages) == text


def test_ten_megabytes_are_not_read():
  began = time.process_time()
  assert proposals.written(['<answer>' * 1_250_000]) == ''
  assert time.process_time() - began < 0.1


@pytest.mark.parametrize(
  ('answer', 'question', 'told'),
  [
    ('Nalo', "Nalo's home?", True),
    ('nalo', "Who is NALO's friend?", True),
    ('Nalo', "Nalon's home?", False),
    ('New York', 'Is it in new york?', True),
    ('New York', 'Is York new?', False),
    ('', 'Anything?', False),
    ('24', 'What is 4*6, less than 240?', False),
  ],
)
def test_a_question_leaks_the_words_of_its_answer(answer, question, told):
  assert proposals.leaks(answer, question) is told


def test_who_proposes_is_told_by_its_methods():
  assert isinstance(ProposedCountdown(), proposals.ProposesTasks)
  assert not isinstance(Countdown(), proposals.ProposesTasks)
