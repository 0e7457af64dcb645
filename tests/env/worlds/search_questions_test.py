"""Questions over a made-up corpus, and over files of the user's."""

import json
import re

import numpy as np
import pytest

from agentrl.env import base, splits, tool_env
from agentrl.env.worlds import search_questions
from agentrl.env.worlds.invented_names import invented_names
from agentrl.env.worlds.search_questions import SearchQuestions, made_up
from agentrl.runtime import install
from agentrl.text import grading
from tests import errors
from tests.env.promises import refuses

needs_bm25s = pytest.mark.skipif(
  "not __import__('importlib').util.find_spec('bm25s')",
  reason=install.command('host'),
)


def test_the_corpus_answers_its_questions():
  """Read back out of the passages."""
  passages, asked = made_up(23)
  texts = ' '.join(x['text'] for x in passages)
  home = dict(re.findall(r'(\w+ \w+) was born in (\w+) and', texts))
  work = dict(
    re.findall(r'(\w+ \w+) was born in \w+ and works as a (\w+)', texts)
  )
  river = dict(re.findall(r'(\w+) is a town on the river (\w+)', texts))
  lead = re.findall(
    r'(\w+) is a town on the river \w+. Its mayor is (\w+)', texts
  )
  mayor = dict(lead)
  assert (len(home), len(river)) == (23, 5)
  # All names differ, so that no passage speaks of two.
  assert len({*home, *river, *river.values(), *mayor.values()}) == 23 + 15
  for question, (answer,), queries in asked:
    (person,) = (x for x in home if x in question)
    assert answer == (
      home[person]
      if question.startswith('Where')
      else work[person]
      if question.startswith('What')
      else river[home[person]]
      if question.startswith('Which')
      else mayor[home[person]]
    )
    assert queries == (person, home[person])[: len(queries)]


def test_every_question_is_a_task():
  family = SearchQuestions(people=20)
  sizes = 0
  for split in splits.SPLITS:
    with errors.raises(ValueError, 'people 20'):
      family.tasks(split, 81, 0)
    sizes += _size(family, split)
  assert sizes == 80


def _size(family, split):
  try:
    family.tasks(split, 10**6, 0)
  except ValueError as error:
    return int(re.search(r'than the (\d+)', str(error))[1])


@needs_bm25s
def test_the_last_search_shows_the_answer():
  family = SearchQuestions()
  env = family.env()
  for task, said, _ in family.tasks('train', 12, 0):
    env.reset(task, 0)
    *_, last = [env.step(message) for message in said[:-1]]
    assert task['answers'][0] in last.text
    if len(said) > 2:
      env.reset(task, 0)
      assert task['answers'][0] not in env.step(said[0]).text
  env.close()


@pytest.fixture
def files(tmp_path):
  corpus, questions = tmp_path / 'c.jsonl', tmp_path / 'q.jsonl'
  corpus.write_text('{"text": "The Sarn is a river in Olund."}\n')
  asked = [
    {
      'question': f'Which river is in Olund ({i})?',
      'answers': ['Sarn', 'river S'],
    }
    for i in range(20)
  ]
  asked += [{'question': 'which River is in Olund? (3)', 'answers': ['Other']}]
  questions.write_text('\n'.join(map(json.dumps, asked)))
  return SearchQuestions(str(corpus), str(questions))


def test_questions_of_a_file(files):
  tasks = [t for s in splits.SPLITS for t in files.tasks(s, _size(files, s), 0)]
  assert len(tasks) == 20
  assert len({grading.normal(t.task['question']) for t in tasks}) == 20
  assert all(t.demonstration == () for t in tasks)
  # Of two questions that are one the first counts.
  assert all(t.task['answers'] == ['Sarn', 'river S'] for t in tasks)


@needs_bm25s
def test_answers_and_their_f1(files):
  env = files.env()
  task = {'question': '?', 'answers': ['Sarn', 'river S']}
  assert env.reset(task, 0) == '?'
  assert 'The Sarn is' in env.step('<search>olund</search>').text
  for answer, score, f1 in (
    ('river S', 1, 1),
    ('S river', 0, 1),
    ('Sarn river', 0, 2 / 3),
    ('Olund', 0, 0),
  ):
    env.reset(task, 0)
    reply = env.step(tool_env.answer_message(answer))
    assert (reply.score, reply.info['f1']) == (score, pytest.approx(f1))
  env.close()


@pytest.mark.parametrize(
  'line',
  [
    '{"question": "Who?"}',
    '{"question": "Who?", "answers": "Ann"}',
    '{"question": "Who?", "answers": []}',
    '{"question": "Who?", "answers": ["..."]}',
    '{"question": "Who?", "answers": [3]}',
    '{"question": "?", "answers": ["Ann"]}',
    '{"question": 1, "answers": ["Ann"]}',
    '["Who?", "Ann"]',
  ],
)
def test_bad_questions(tmp_path, line):
  file = tmp_path / 'q.jsonl'
  file.write_text(line)
  family = SearchQuestions('c.jsonl', str(file))
  with errors.raises(ValueError, 'q.jsonl:1'):
    family.tasks('train', 1, 0)


def test_without_bm25s_it_says_how_to_get_it(monkeypatch):
  def gone(*_, **__):
    raise ImportError('No module named bm25s')

  monkeypatch.setattr(search_questions, 'Search', gone)
  search_questions._search.cache_clear()
  with pytest.raises(ValueError, match=r'\[host\]'):
    SearchQuestions(people=7).env()
  assert 'bm25s' in str(base.missing('bm25s', 'host'))


def test_there_are_names_for_everyone():
  most = search_questions._MOST_PEOPLE
  needed = 2 * most + 3 * most // search_questions._PEOPLE_OF_A_TOWN
  names = list(invented_names(np.random.default_rng(0), needed))
  assert len(set(names)) == needed


def test_bad_settings():
  refuses(SearchQuestions, corpus=('a',), questions=('a',))
