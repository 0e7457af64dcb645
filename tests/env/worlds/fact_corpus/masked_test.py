"""Masked texts: filled in by a reader that knows only the passages."""

import re

import numpy as np
import pytest

from agentrl.env.worlds.fact_corpus import masked, questions, reading
from agentrl.env.worlds.fact_corpus.corpus import made
from agentrl.env.worlds.fact_corpus.questions import FactQuestion, Mix
from agentrl.tool.base import Answer
from tests.env.worlds.fact_corpus.reader import read

CORPUS = made(100)
MIX = Mix(1, 3, 0.0, 0.0, (), 2, 1.0)


@pytest.fixture(scope='module')
def drawn():
  rng = np.random.default_rng(0)
  some = [questions.draw(CORPUS, MIX, 'train', rng) for _ in range(120)]
  return [x for x in some if x]


def filled(text: str, facts) -> list[str]:
  """The objects that a text asks for, sentence by sentence."""
  objects: list[str] = []
  for start, relation in re.findall(r"(\w+?)(?:'s)? (\w+) is _\.", text):
    subject = objects[-1] if start == 'Its' else start
    objects.append(facts[subject, relation][-1])
  return objects


def test_answers_are_those_of_a_reader(drawn):
  facts = read(CORPUS.passages)
  assert {len(x.path) for x in drawn} == {1, 2, 3}
  assert any('.' in ''.join(x.path) for x in drawn)
  for x in drawn:
    answer, evidence = questions.solve(CORPUS, x)
    text, alone = (
      questions.text(x),
      read([CORPUS.passages[i] for i in evidence]),
    )
    objects = filled(text, facts)
    assert objects == filled(text, alone) == answer.split(', ')
    assert text.count('_') == len(evidence) == len(x.path)
    # Nothing is asked for twice, or stands in the text.
    assert len({x.start, *objects}) == len(objects) + 1
    assert questions.of_task(questions.task(CORPUS, x)) == x


def test_texts():
  path = ('home', '.mayor', 'age')
  want = "Bako's home is _. Its mayor is _. Bako's age is _."
  assert masked.text('Bako', path) == want


def test_a_path_ends_where_a_fact_is_missing(drawn):
  start, path = next((x.start, x.path) for x in drawn if len(x.path) == 2)
  passages, objects = masked.follow(CORPUS, start, path)
  key = CORPUS.facts[passages[1]][:2]
  holds = {k: v for k, v in CORPUS.holds.items() if k != key}
  less = CORPUS._replace(holds=holds)
  assert masked.follow(less, start, path) == (passages[:1], objects[:1])
  nothing = CORPUS._replace(holds={})
  rng = np.random.default_rng(0)
  assert masked.walk(nothing, start, 1, rng) is None
  # A person has three relations, of whom the last leads to no more.
  person = next(k for k, x in CORPUS.entities.items() if x.kind == 'person')
  alone = {k: v for k, v in CORPUS.holds.items() if k == (person, 'age')}
  aged = CORPUS._replace(holds=alone)
  assert masked.walk(aged, person, 2, rng) is None


def test_spans_count_in_any_order():
  """The potential is of a set, where a chain's would stay at 0."""
  x = FactQuestion('masked', *_branching())
  answer, evidence = questions.solve(CORPUS, x)
  seen = reading.Reading(CORPUS, questions.task(CORPUS, x))

  def observe(i):
    return seen.observe([Answer('bm25', CORPUS.passages[i], '', 0.0)])

  assert observe(evidence[1])['progress'] == pytest.approx(1 / 3)
  assert observe(evidence[0])['progress'] == pytest.approx(1 / 3)
  assert seen.judge(answer).score == 1
  assert seen.judge(', '.join(reversed(answer.split(', ')))).score == 0


def _branching():
  """A person with two facts of its own."""
  for name, entity in CORPUS.entities.items():
    path = ('home', 'age')
    if entity.kind == 'person' and all((name, r) in CORPUS.holds for r in path):
      return name, path
  raise AssertionError
