"""Corpus of facts: read back out of its texts."""

import collections
import re

import numpy as np
import pytest

from agentrl.env.worlds.fact_corpus import corpus
from agentrl.env.worlds.fact_corpus.corpus import RELATIONS, made
from tests.env.worlds.fact_corpus.reader import DENIES, STATES, read

SETTINGS = (
  (100, 0.0, 0, 'chains'),
  (100, 0.3, 2, 'facts'),
  (400, 0.5, 1, 'chains'),
)


@pytest.mark.parametrize('settings', SETTINGS)
def test_every_passage_is_short_and_says_one_thing(settings):
  c = made(*settings)
  assert len(set(c.passages)) == len(c.passages) == len(c.titles)
  for i, text in enumerate(c.passages):
    match = STATES.fullmatch(text) or DENIES.fullmatch(text)
    assert len(text) <= 45
    assert c.titles[i] in match.groups()
    assert c.ids[text] == i
    assert (i in c.facts) == bool(STATES.fullmatch(text))


@pytest.mark.parametrize('settings', SETTINGS)
def test_the_latest_passage_holds(settings):
  c = made(*settings)
  facts = read(c.passages)
  assert {key: c.facts[i].object for key, i in c.holds.items()} == {
    key: objects[-1] for key, objects in facts.items()
  }
  assert dict(c.older) == {
    key: objects[0] for key, objects in facts.items() if len(objects) == 2
  }
  assert all(len(set(x)) == len(x) <= 2 for x in facts.values())
  sets = collections.defaultdict(set)
  for (subject, relation), objects in facts.items():
    sets[relation, objects[-1]].add(subject)
  assert sets == {
    key: {c.facts[i].subject for i in places}
    for key, places in c.members.items()
  }


@pytest.mark.parametrize('settings', SETTINGS)
def test_a_denial_is_true(settings):
  c = made(*settings)
  facts = read(c.passages)
  denials = [DENIES.fullmatch(x).groups() for x in c.passages if ' not ' in x]
  assert bool(denials) == bool(settings[2])
  for subject, relation, object in denials:
    assert object not in facts.get((subject, relation), ())
  per_fact = collections.Counter((s, r) for s, r, _ in denials)
  assert max(per_fact.values(), default=0) == settings[2]


def test_shares_are_those_of_the_settings():
  c = made(400, 0.5)
  pairs = sum(len(RELATIONS[x.kind]) for x in c.entities.values())
  missing = 1 - len(c.holds) / pairs
  assert abs(missing - 0.1) < 4 * (0.1 * 0.9 / pairs) ** 0.5
  contradicted = len(c.older) / len(c.holds)
  assert abs(contradicted - 0.5) < 4 * (0.25 / len(c.holds)) ** 0.5
  assert not made(400).older
  assert not any(re.match(r'\d', x) for x in made(400).passages)


def test_objects_are_of_their_kind():
  c = made(100, 0.3)
  for fact in c.facts.values():
    kind = RELATIONS[c.entities[fact.subject].kind][fact.relation]
    if kind == 'number':
      assert 18 <= int(fact.object) < 90
    else:
      assert c.entities[fact.object].kind == kind
      assert fact.object != fact.subject


def test_splits_of_entities():
  c = made(100, 0.3)
  counts = collections.Counter((x.kind, x.split) for x in c.entities.values())
  assert counts['person', 'test'] == 20
  assert counts['place', 'test'] == counts['event', 'test'] == 4
  crossed = {
    c.entities[x.subject].split != c.entities[x.object].split
    for x in c.facts.values()
    if x.relation != 'age'
  }
  assert crossed == {True, False}
  apart = made(100, 0.3, 0, 'facts')
  assert all(
    apart.entities[x.subject].split == apart.entities[x.object].split
    for x in apart.facts.values()
    if x.relation != 'age'
  )


def test_it_is_the_same_again():
  again = corpus.made.__wrapped__
  assert again(100, 0.3, 2, 'facts') == made(100, 0.3, 2, 'facts')
  assert again(100).passages != again(101).passages


def test_the_most_people_have_names():
  few = corpus._entities(np.random.default_rng(0), corpus.LEAST_PEOPLE)
  many = corpus._entities(np.random.default_rng(0), corpus.MOST_PEOPLE)
  assert len(few) == 1.4 * corpus.LEAST_PEOPLE
  assert len(many) == 1.4 * corpus.MOST_PEOPLE
