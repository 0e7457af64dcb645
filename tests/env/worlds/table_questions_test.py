"""Tables asked with both tools; the checklist of open questions by hand."""

import collections

import pytest

from agentrl.env import tool_env
from agentrl.env.worlds import sql_questions
from agentrl.env.worlds.table_questions import (
  SCHEMA,
  TableQuestions,
  covered,
  criterion,
)
from agentrl.env.worlds.table_templates import QUESTIONS
from tests.env.promises import refuses, replies
from tests.env.worlds.sql_questions_test import ROWS

RULED = {
  **{'rows': ROWS, 'question': 'How many?', 'gold': 'SELECT 8', 'kind': 'sum'},
  **{'rule': 1, 'facts': ['8']},
}
OPEN = {
  **{'rows': ROWS, 'question': 'Describe it.', 'gold': '', 'kind': 'open'},
  **{'rule': 0, 'facts': ['cup', '5', '4']},
}


@pytest.fixture(scope='module')
def env():
  env = TableQuestions().env()
  yield env
  env.close()


@pytest.mark.parametrize('tools', ['sql', 'python', 'python sql'])
def test_demonstrations_show_every_fact_once(tools):
  family = TableQuestions(tools=tools, things=5, shops=3)
  env = family.env()
  used = collections.Counter()
  for solved in family.tasks('train', 15, 3):
    call, answer = replies(env, solved.task, solved.demonstration)
    used[solved.demonstration[0].split('>')[0]] += 1
    assert answer.score == family.expert_value(solved.task) == 1
    assert (call.info['progress'], answer.info['progress']) == (1, 0)
    assert (answer.info['covered'], answer.info['f1']) == (1, 1)
    assert call.info['rule'] == answer.info['rule'] == solved.task['rule']
  assert set(used) == {f'<{name}' for name in tools.split()}
  env.close()


def test_every_kind_turns_up_and_only_those_asked_for():
  every = collections.Counter(
    t.task['kind'] for t in TableQuestions().tasks('train', 150, 0)
  )
  assert set(every) == set(QUESTIONS)
  some = TableQuestions('mean open').tasks('test', 20, 0)
  assert {t.task['kind'] for t in some} == {'mean', 'open'}


def test_tasks_of_sql_questions_are_what_they_were():
  """Its parts are used here; runs are named by a hash of its settings."""
  family = sql_questions.SqlQuestions()
  assert family.name() == 'sql_questions-ccd5dcac'
  (task,) = family.tasks('train', 1, 0)
  assert set(task.task) == {'rows', 'question', 'gold'}


def test_both_tools_see_the_tables(env):
  assert env.reset(RULED, 0) == f'{SCHEMA}\nHow many?'
  shown = env.step('<python>print(item[1], len(stock))</python>').text
  assert "[2, 'hat', 20] 4" in shown
  assert 'hat' in env.step('<sql>SELECT name FROM item WHERE id=2</sql>').text
  other = RULED | {'rows': ROWS | {'item': [[1, 'kite', 1]]}}
  env.reset(other, 0)
  assert "[[1, 'kite', 1]]" in env.step('<python>print(item)</python>').text
  assert 'kite' in env.step('<sql>SELECT * FROM item</sql>').text


def test_only_the_tools_of_the_setting():
  env = TableQuestions(tools='sql').env()
  env.reset(RULED, 0)
  reply = env.step('<python>print(8)</python>')
  assert reply.invalid
  env.close()


def test_progress_counts_a_fact_once_and_no_dump(env):
  env.reset(OPEN, 0)
  for message, progress in (
    ('<sql>SELECT * FROM item</sql>', 0),  # all rows
    ('<sql>SELECT name, price FROM item WHERE id=1</sql>', 2 / 3),
    ('<python>print(item[0][1], item[0][2])</python>', 0),  # seen
    ('<sql>SELECT nothing</sql>', 0),
    ('what?', 0),
    ('<python>print(sum(n for s, i, n in stock if i == 1))</python>', 1 / 3),
    ('<answer>cup</answer>', 0),
  ):
    reply = env.step(message)
    assert reply.info['progress'] == pytest.approx(progress)
    assert reply.info['rule'] == 0
  assert reply.info['covered'] == pytest.approx(1 / 3)
  assert reply.info['f1'] == pytest.approx(2 / 4)
  assert (reply.done, reply.score) == (True, 0)


@pytest.mark.parametrize(
  ('answer', 'share', 'right'),
  [
    ('cup 5 4', 1, True),
    ('The cup, which costs $5; 4 pieces.', 1, True),
    ('4.0 Cup 10/2', 1, True),
    ('cup 5', 2 / 3, False),
    ('hat 20 1', 0, False),
    ('', 0, False),
    ('cups 54', 0, False),
    ('cup hat pen 1 2 3 4 5 6 7', 1, False),  # a list of all there is
  ],
)
def test_a_checklist(env, answer, share, right):
  facts = OPEN['facts']
  assert covered(answer, facts) == pytest.approx(share)
  assert criterion(answer, facts) == right
  env.reset(OPEN, 0)
  reply = env.step(tool_env.answer_message(answer))
  assert (reply.score, reply.info['covered']) == (right, pytest.approx(share))


@pytest.mark.parametrize(
  ('answer', 'score'), [('8', 1), ('16/2', 1), ('8 or 6', 0), ('6', 0)]
)
def test_a_rule_takes_one_value(env, answer, score):
  env.reset(RULED, 0)
  assert env.step(tool_env.answer_message(answer)).score == score


def test_teaching_names_the_tools():
  assert TableQuestions().system == ''
  text = TableQuestions(tools='python', teach=True).system
  assert '<python>' in text
  assert '<sql>' not in text


def test_bad_settings():
  refuses(
    TableQuestions,
    kinds=('median',),
    tools=('', 'bash'),
    things=(1,),
    shops=(13,),
    format=('xml',),
  )
