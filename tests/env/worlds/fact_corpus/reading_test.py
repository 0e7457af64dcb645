"""Columns of a trajectory, worked out by hand."""

import pytest

from agentrl.env.worlds.fact_corpus import questions
from agentrl.env.worlds.fact_corpus.corpus import made
from agentrl.env.worlds.fact_corpus.questions import FactQuestion
from agentrl.env.worlds.fact_corpus.reading import Reading
from agentrl.tool.base import Answer

CORPUS = made(100)


def chain(hops):
  """A task of so many hops of friends."""
  path = ('friend',) * hops
  for name, entity in CORPUS.entities.items():
    places, end = questions.follow(CORPUS, name, path)
    if entity.kind == 'person' and end and len(set(places)) == hops:
      return questions.task(CORPUS, FactQuestion('chain', name, path))
  raise AssertionError('there are no such friends')


def shown(*places, fault='', name='bm25'):
  text = '\n'.join(CORPUS.passages[i] for i in places) or 'No passage.'
  return Answer(name, text, fault, 0.0)


@pytest.fixture
def task():
  return chain(3)


@pytest.fixture
def other(task):
  """Passages that are no evidence."""
  return [i for i in range(9) if i not in task['evidence']]


def columns(info, *names):
  return tuple(info[x] for x in names)


def test_evidence_counts_once_and_progress_in_order(task, other):
  a, b, c = task['evidence']
  read = Reading(CORPUS, task)
  counts = 'evidence', 'retrieved', 'useful', 'repeated', 'progress'
  third = pytest.approx(1 / 3)
  info = read.observe([shown(other[0])])
  assert columns(info, *counts) == (0, 1, 0, 0, 0)
  info = read.observe([shown(b)])  # the second before the first
  assert columns(info, *counts) == (third, 1, 1, 0, 0)
  info = read.observe([shown(a, other[0])])
  assert columns(info, *counts) == (third, 1, 1, 0, 1 / 2)
  info = read.observe([shown(b), shown(other[0], a)])
  assert columns(info, *counts) == (0, 0, 0, 2, 0)
  info = read.observe([shown(), shown(c), shown(c)])
  assert columns(info, *counts) == (third, 1, 1, 2, 1 / 4)
  assert columns(read.observe(()), *counts) == (0, 0, 0, 0, 0)
  assert columns(info, 'relevant', 'hops', 'lies') == (3, 3, 0)
  assert columns(info, 'calls_bm25', 'calls_dense') == (3, 0)


def test_calls_that_went_wrong_show_nothing(task):
  read = Reading(CORPUS, task)
  info = read.observe([shown(*task['evidence'], fault='error')])
  assert not any(
    info[x] for x in ('evidence', 'retrieved', 'repeated', 'calls_bm25')
  )


def test_lies_are_read_but_no_evidence(task):
  true = CORPUS.passages[task['evidence'][0]]
  false = true.rpartition(' ')[0] + ' Nowhere.'
  read = Reading(CORPUS, task)
  info = read.observe([Answer('liar', false, '', 0.0)])
  assert columns(info, 'lies', 'retrieved', 'evidence') == (1, 1, 0)
  info = read.observe([Answer('liar', f'{false}\n{true}', '', 0.0)])
  assert columns(info, 'lies', 'retrieved', 'useful') == (0, 1, 1)


@pytest.mark.parametrize('seen', [0, 1, 3])
def test_progress_adds_up_to_the_score(task, seen):
  for answer, score in ((task['answers'][0], 1), ('Nobody', 0)):
    read = Reading(CORPUS, task)
    info = read.observe([shown(*task['evidence'][:seen])] * bool(seen))
    grade = read.judge(answer)
    assert grade.score == score
    assert info['progress'] + grade.info['progress'] == pytest.approx(score)


def test_sets_are_read_by_the_aggregate_tool():
  key = max(CORPUS.members, key=lambda x: (x[0] == 'home', x))
  question = FactQuestion('count', key[1], (), 'home')
  task = questions.task(CORPUS, question)
  members = len(task['evidence'])
  result = Answer('aggregate', f'count home {key[1]}: {members}', '', 0.0)
  read = Reading(CORPUS, task)
  info = read.observe([result])
  assert columns(info, 'evidence', 'retrieved', 'useful') == (1, members, 1)
  assert info['progress'] == pytest.approx(members / (members + 1))
  assert columns(read.observe([result]), 'useful', 'repeated') == (0, 1)
  # In any order, one by one.
  read = Reading(CORPUS, task)
  for i in reversed(task['evidence']):
    info = read.observe([shown(i)])
    assert info['evidence'] == pytest.approx(1 / members)
    assert info['progress'] == pytest.approx(1 / (members + 1))
  # What it counted is new, though all of it was read.
  info = read.observe([result])
  assert columns(info, 'retrieved', 'repeated', 'lies') == (0, 0, 0)


@pytest.mark.parametrize(
  ('answer', 'score', 'f1', 'unknown'),
  [
    ('The Tebu.', 1, 1, 0),
    ('tebu', 1, 1, 0),
    ('Tebu town', 0, 2 / 3, 0),
    ('Tebu Tebu', 0, 2 / 3, 0),
    ('Unknown!', 0, 0, 1),
    ('unknown town', 0, 0, 0),
    ('', 0, 0, 0),
  ],
)
def test_answers(task, answer, score, f1, unknown):
  grade = Reading(CORPUS, task | {'answers': ['Tebu']}).judge(answer)
  assert grade.score == score
  assert grade.info['f1'] == pytest.approx(f1)
  assert grade.info['answered_unknown'] == unknown
