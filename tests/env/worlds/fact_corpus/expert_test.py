"""Expert: its calls show the evidence, and it says where none can."""

import numpy as np
import pytest

from agentrl.env.worlds.fact_corpus import expert, questions, retrievers
from agentrl.env.worlds.fact_corpus.corpus import made
from agentrl.env.worlds.fact_corpus.questions import Mix
from agentrl.runtime import install

pytest.importorskip('bm25s', reason=install.command('host'))

CORPUS = made(100, 0.2)


def some(count=60, **changes):
  mix = Mix(1, 3, 0.2, 0.4, ('count', 'max'), 3)._replace(**changes)
  rng = np.random.default_rng(0)
  drawn = [questions.draw(CORPUS, mix, 'train', rng) for _ in range(count)]
  return [x for x in drawn if x]


@pytest.mark.parametrize(
  'names', ['bm25', 'bm25 aggregate', 'liar dense', 'aggregate graph dense']
)
def test_its_calls_show_the_evidence_in_order(names):
  tools = retrievers.tools(CORPUS, names.split(), 2, 0.5)
  by_name = {x.name: x for x in tools}
  for question in some():
    evidence = questions.solve(CORPUS, question).evidence
    calls, notes = expert.plan(CORPUS, question, tools)
    assert len(calls) == len(notes)
    shown = [by_name[x.name](**x.args).splitlines() for x in calls]
    texts = [CORPUS.passages[i] for i in evidence]
    if question.kind == 'unanswerable':
      assert len(calls) == len(texts) + 1
      *notes, last = notes
      assert last.startswith(f'No {question.path[-1]} of ')
    elif question.inverse and 'aggregate' in by_name:
      texts = texts[: len(question.path)]
      assert calls[-1].name == 'aggregate'
      answer = questions.solve(CORPUS, question).answer
      assert notes[-1] == shown[-1][0]
      assert notes.pop().endswith(f': {answer}')
    assert notes == texts
    assert all(x in lines for x, lines in zip(notes, shown, strict=False))


def test_no_query_has_what_it_looks_for():
  tools = retrievers.tools(CORPUS, ['liar'], 2, 0.8)
  for question in some(aggregated=0.0, unanswerable=0.0):
    planned = expert.plan(CORPUS, question, tools)
    evidence = questions.solve(CORPUS, question).evidence
    for call, i in zip(planned[0] if planned else (), evidence, strict=False):
      assert CORPUS.facts[i].object not in call.args['query']


def test_where_no_call_shows_the_evidence():
  lies = retrievers.tools(CORPUS, ['liar'], 2, 1.0)
  (question, *_) = some(aggregated=0.0, unanswerable=0.0)
  assert expert.plan(CORPUS, question, lies) is None
  (missing, *_) = some(unanswerable=1.0, aggregated=0.0, max_hops=1)
  only_sets = retrievers.tools(CORPUS, ['aggregate'], 2, 0.0)
  assert expert.plan(CORPUS, missing, only_sets) is None
  calls, _ = expert.plan(CORPUS, missing, lies)
  assert len(calls) == 1
