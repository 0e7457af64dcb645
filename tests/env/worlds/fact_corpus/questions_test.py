"""Questions about facts: answered by a reader that knows only the texts."""

import collections
import re

import numpy as np
import pytest

from agentrl.env.worlds.fact_corpus import questions
from agentrl.env.worlds.fact_corpus.corpus import made
from agentrl.env.worlds.fact_corpus.questions import FactQuestion, Mix
from tests.env.worlds.fact_corpus.reader import read

MIX = Mix(1, 4, 0.25, 0.4, ('count', 'max'), 2)
CORPORA = ((100, 0.0, 0, 'chains'), (100, 0.4, 1, 'facts'))


def reread(question, facts):
  """The answer to a question as it is worded; None where the facts lack it."""
  match = re.fullmatch(r'(?:(Count|Max age): (\w+) is )?(.*)\?', question)
  kind, inverse, chain = match.groups()
  at, *path = chain.split("'s ")
  for relation in path:
    if (at, relation) not in facts:
      return None
    at = facts[at, relation][-1]
  if not kind:
    return at
  of_set = [
    subject
    for (subject, relation), objects in facts.items()
    if (relation, objects[-1]) == (inverse, at)
  ]
  if kind == 'Count':
    return str(len(of_set))
  ages = [facts[x, 'age'][-1] for x in of_set if (x, 'age') in facts]
  return max(ages, key=int, default=None)


@pytest.fixture(params=CORPORA, scope='module')
def drawn(request):
  """A corpus, and questions about it."""
  c = made(*request.param)
  rng = np.random.default_rng(0)
  some = [questions.draw(c, MIX, 'train', rng) for _ in range(150)]
  return c, [x for x in some if x]


def test_answers_are_those_of_a_reader(drawn):
  c, some = drawn
  facts = read(c.passages)
  assert len(some) >= 140
  for question in some:
    answer = questions.solve(c, question).answer
    reading = reread(questions.text(question), facts)
    assert answer == (reading or 'unknown')
    assert (reading is None) == (question.kind == 'unanswerable')


def test_evidence_is_sufficient(drawn):
  """Read alone, without all else."""
  c, some = drawn
  for question in some:
    answer, evidence = questions.solve(c, question)
    alone = read([c.passages[i] for i in evidence])
    assert (reread(questions.text(question), alone) or 'unknown') == answer
    assert len(set(evidence)) == len(evidence)
    # Also with the passages that they have outdated.
    with_old = read(
      [
        text
        for i, text in enumerate(c.passages)
        if i in evidence
        or any(
          i in c.facts and c.facts[i][:2] == c.facts[j][:2] for j in evidence
        )
      ]
    )
    assert (reread(questions.text(question), with_old) or 'unknown') == answer


def test_evidence_is_necessary(drawn):
  """Without any of it, chains and counts have another answer or none."""
  c, some = drawn
  held = 0
  for question in some:
    if question.kind not in ('chain', 'count'):
      continue
    answer, evidence = questions.solve(c, question)
    for gone in evidence:
      rest = read(x for i, x in enumerate(c.passages) if i != gone)
      assert reread(questions.text(question), rest) != answer
      held += 1
  assert held > 100


def test_evidence_is_in_the_order_of_the_chain(drawn):
  c, some = drawn
  for question in some:
    evidence = questions.solve(c, question).evidence
    at = question.start
    for i, relation in zip(evidence, question.path, strict=False):
      assert c.facts[i][:2] == (at, relation)
      at = c.facts[i].object
    if question.kind == 'unanswerable':
      assert len(evidence) == len(question.path) - 1
      assert (at, question.path[-1]) not in c.holds


def test_no_chain_comes_back_to_where_it_was(drawn):
  c, some = drawn
  for question in some:
    places, _ = questions.follow(c, question.start, question.path)
    names = [question.start, *(c.facts[i].object for i in places)]
    assert len(set(names)) == len(names)


def test_sets_are_larger_than_one_call_shows(drawn):
  c, some = drawn
  counts = [x for x in some if x.kind == 'count']
  assert counts
  for question in counts:
    assert int(questions.solve(c, question).answer) >= MIX.members


def test_shares_and_hops():
  c = made(400)
  rng = np.random.default_rng(1)
  some = [questions.draw(c, MIX, 'train', rng) for _ in range(800)]
  kinds = collections.Counter(x.kind for x in some if x)
  hops = collections.Counter(questions.task(c, x)['hops'] for x in some if x)
  assert None not in some
  for kind, share in (
    ('unanswerable', 0.25),
    ('count', 0.2),
    ('max', 0.2),
    ('chain', 0.35),
  ):
    assert (
      abs(kinds[kind] / 800 - share) < 4 * (share * (1 - share) / 800) ** 0.5
    )
  assert set(hops) == {1, 2, 3, 4}
  assert all(
    abs(x / 800 - 0.25) < 4 * (0.1875 / 800) ** 0.5 for x in hops.values()
  )


def test_texts():
  path = ('home', 'mayor')
  assert (
    questions.text(FactQuestion('chain', 'Bako', path))
    == "Bako's home's mayor?"
  )
  one = FactQuestion('count', 'Bako', ('home',), 'home')
  assert questions.text(one) == "Count: home is Bako's home?"
  two = FactQuestion('max', 'Tebu', (), 'home')
  assert questions.text(two) == 'Max age: home is Tebu?'


def test_a_task_gives_its_question_back(drawn):
  c, some = drawn
  for question in some:
    task = questions.task(c, question)
    assert questions.of_task(task) == question
    assert task['passages'] == [c.passages[i] for i in task['evidence']]


def test_no_walk_where_nothing_fits():
  """One hop is missing, so that no chain of the corpus is left."""
  c = made(100)._replace(holds={})
  mix = MIX._replace(unanswerable=0.0, aggregated=0.0)
  rng = np.random.default_rng(0)
  assert questions.draw(c, mix, 'train', rng) is None
