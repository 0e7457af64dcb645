"""Messages with calls, with an answer, with both and with neither."""

import threading

import pytest

from agentrl.env import tool_env
from agentrl.text.tool_calls import FORMATS, format_of
from agentrl.text.tool_calls.base import Call
from agentrl.tool.base import ToolError
from agentrl.tool.schema import schema

NOTHING = {'calls': 0.0, 'faults': 0.0, 'right': 0.0}


class Echo:
  name = 'echo'
  description = 'Says it again.'
  schema = schema(['text'], text='string')

  def __call__(self, text):
    if text == 'no':
      raise ToolError('error', 'No.')
    return text


class Meet:
  """Answers when two calls are there at the same time."""

  name = 'meet'
  description = 'Waits for another.'
  schema = schema(['text'], text='string')

  def __init__(self):
    self._two = threading.Barrier(2)

  def __call__(self, text):
    self._two.wait(timeout=30)
    return text


def begin(task, seed):
  def judge(answer):
    right = answer == task['answer']
    return tool_env.Grade(float(right), {'right': float(right)})

  return tool_env.ToolTask(f'{task["ask"]} {seed}', [Echo(), Meet()], judge)


@pytest.fixture
def env():
  closed = []
  env = tool_env.ToolEnv(
    begin, format_of('tagged'), NOTHING, lambda: closed.append(1)
  )
  assert env.reset({'ask': 'What?', 'answer': '4'}, 7) == 'What? 7'
  yield env
  env.close()
  assert closed == [1]


def test_calls_are_answered_in_order_and_counted(env):
  reply = env.step('Hm. <echo>a</echo> and <echo>no</echo>')
  assert reply.text == '<result>\na\n</result>\n<result>\nNo.\n</result>'
  assert reply.info == NOTHING | {'calls': 2, 'faults': 1}
  assert reply[1:5] == (0.0, False, 0.0, False)


def test_calls_of_a_message_run_side_by_side(env):
  reply = env.step('<meet>a</meet><meet>b</meet>')
  assert reply.info == NOTHING | {'calls': 2}


@pytest.mark.parametrize(('answer', 'score'), [('4', 1.0), ('5', 0.0)])
def test_an_answer_ends(env, answer, score):
  reply = env.step(f'So: <answer> {answer}\n</answer>.')
  assert (reply.score, reply.reward, reply.done) == (score, score, True)
  assert reply.info == NOTHING | {'right': score}
  assert not reply.invalid


@pytest.mark.parametrize(
  'message',
  [
    '',
    '4',
    '<answer>4',
    '4</answer>',
    '<answer>4</answer><answer>5</answer>',
    '<think><answer>4</answer>',
    '<think><answer>4</answer></think>',
  ],
)
def test_what_is_neither_is_told_what_to_write(env, message):
  reply = env.step(message)
  assert reply.text == tool_env.LOST
  assert reply.invalid
  assert not reply.done
  assert reply.info == NOTHING


def test_a_call_that_cannot_be_read_is_invalid(env):
  reply = env.step('<echo>a</echo><echo>a')
  assert reply.invalid
  assert 'end it with </echo>' in reply.text
  assert reply.info == NOTHING | {'calls': 2, 'faults': 1}


def test_a_call_that_its_own_argument_hides_is_a_fault(env):
  reply = env.step('<echo>what is </think>?</echo>')
  assert reply.invalid
  assert reply.info == {**NOTHING, 'calls': 1.0, 'faults': 1.0}
  assert '</think>' in reply.text


def test_a_message_has_only_so_many_calls(env):
  reply = env.step('<echo>a</echo>' * 1000)
  assert reply.text.count('\na\n') == 16
  assert reply.info['calls'] == 17  # the last one says that there are more
  assert reply.invalid


def test_the_next_task_is_another_one(env):
  assert env.reset({'ask': 'And?', 'answer': '5'}, 1) == 'And? 1'
  assert env.step(tool_env.answer_message('5')).score == 1


@pytest.mark.parametrize(
  ('message', 'calls', 'written'),
  [
    ('<echo>a</echo>', 1, 0),
    ('<echo>a</echo><answer>4</answer>', 1, 1),
    ('<answer>4</answer><answer>5</answer>', 0, 2),
    ('<answer>4</answer>', 0, 1),
    ('<think><answer>4</answer></think>', 0, 0),
  ],
)
def test_answers_are_counted_wherever_they_stand(message, calls, written):
  """One alone ends a task, and one beside calls is not read."""
  env = tool_env.ToolEnv(begin, format_of('tagged'))
  env.reset({'ask': 'What?', 'answer': '4'}, 0)
  reply = env.step(message)
  env.close()
  assert (reply.info['calls'], reply.info['answers']) == (calls, written)
  assert reply.done == (not calls and written == 1)


@pytest.mark.parametrize('name', sorted(FORMATS))
def test_every_format_does(name):
  form = format_of(name)
  env = tool_env.ToolEnv(begin, form)
  env.reset({'ask': 'What?', 'answer': '4'}, 0)
  reply = env.step(form.write([Call('echo', {'text': '<answer>4</answer>'})]))
  assert not reply.done
  assert reply.text == form.answer([('echo', '<answer>4</answer>')])
  assert env.step(tool_env.answer_message('4')).done
  assert '<answer>' in tool_env.describe_tools('Rules.', [Echo()], name)
  env.close()


def test_a_task_observes_every_turn():
  """With the answers to calls, and with none where there are no calls."""

  def begin_observed(task, seed):
    turns = []

    def observe(answers):
      turns.append(answers)
      right = sum(x.text == 'yes' for x in answers)
      return {'turns': len(turns), 'right': right, 'no column': 5}

    def judge(answer):
      return tool_env.Grade(1.0, {'right': 9.0})

    return tool_env.ToolTask('?', [Echo()], judge, observe)

  columns = (*NOTHING, 'turns')
  env = tool_env.ToolEnv(begin_observed, format_of('tagged'), columns)
  for _ in range(2):  # tasks, each with turns of its own
    env.reset({}, 0)
    two = '<echo>yes</echo><echo>no</echo>'
    infos = [env.step(x).info for x in (two, 'hm', '<answer>yes</answer>')]
    assert [x['turns'] for x in infos] == [1, 2, 3]
    assert [x['right'] for x in infos] == [1, 0, 9]
    assert [x['faults'] for x in infos] == [1, 0, 0]
    assert all(set(x) == set(columns) for x in infos)
  env.close()
