"""Corpus of invented people, places and events, with one fact in a passage.

  Bako's home is Tebu.    of people: home, friend, age
  Tebu's mayor is Nalo.   of places: mayor, feast
  Rife's site is Tebu.    of events: site, host

One fact in ten is in no passage. Where passages may contradict each other all
begin with a year (`312: Bako's home is Tebu.`), and the latest one holds.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from agentrl.env import splits
from agentrl.env.worlds.invented_names import invented_names

# Kind of an entity -> its relations -> the kind of their objects.
RELATIONS = {
  'person': {'home': 'place', 'friend': 'person', 'age': 'number'},
  'place': {'mayor': 'person', 'feast': 'event'},
  'event': {'site': 'place', 'host': 'person'},
}
LEAST_PEOPLE, MOST_PEOPLE = 100, 3000  # few, and a split has too few places
_PEOPLE_OF_A_PLACE = 5
_SHORT_NAMES = 1000  # names that two syllables suffice for
_MISSING = 0.1  # share of the facts that no passage states
_AGES = (18, 90)
_YEARS = (200, 900)
_AGO = 100  # years that an older passage is older, at most


class Entity(NamedTuple):
  kind: str  # 'person', 'place' or 'event'
  split: str  # of the questions that begin at it


class Fact(NamedTuple):
  subject: str
  relation: str
  object: str  # an entity, or a number
  year: int  # of the passage that states it


class Corpus(NamedTuple):
  """Passages, each known by its place, and what they state."""

  passages: tuple[str, ...]  # no two are equal
  titles: tuple[str, ...]  # the entity that each passage is about
  facts: Mapping[int, Fact]  # that a passage states; denials state none
  entities: Mapping[str, Entity]  # by name
  ids: Mapping[str, int]  # text -> place of the passage
  holds: Mapping[tuple[str, str], int]  # (subject, relation) -> latest passage
  older: Mapping[tuple[str, str], str]  # (subject, relation) -> object of a
  # passage that does not hold any more
  members: Mapping[tuple[str, str], tuple[int, ...]]  # (relation, object) ->
  # the passages that hold and state this


@functools.lru_cache(maxsize=4)
def made(
  people: int,
  contradictions: float = 0.0,
  distractors: int = 0,
  held_out: str = 'chains',
) -> Corpus:
  """Returns the corpus of these settings; the same everywhere.

  Args:
    people: in it; a fifth as many places, and as many events.
    contradictions: share of the facts that an older passage contradicts.
    distractors: passages beside each fact that name another object and deny
      it; fewer where there are no more objects.
    held_out: 'chains': facts relate entities of both splits. 'facts': only
      entities of one split, so that no fact serves questions of both.
  """
  rng = np.random.default_rng(0)
  entities = _entities(rng, people)
  facts, denials = [], []
  for name, entity in entities.items():
    split = entity.split if held_out == 'facts' else ''
    for relation, kind in RELATIONS[entity.kind].items():
      pool = _pool(entities, kind, split)
      objects = [pool[i] for i in rng.permutation(len(pool)) if pool[i] != name]
      latest, older, *denied = objects[: 2 + distractors]
      year = int(rng.integers(*_YEARS))
      if rng.random() >= _MISSING:
        facts.append(Fact(name, relation, latest, year))
        if rng.random() < contradictions:
          ago = int(rng.integers(1, _AGO))
          facts.append(Fact(name, relation, older, year - ago))
      denials += [Fact(name, relation, x, year) for x in denied]
  dated = contradictions > 0
  states = {_text(x, dated): x for x in facts}
  denies = {_text(x, dated, ' not', ', they say'): x for x in denials}
  texts = [*states, *denies]
  passages = tuple(texts[i] for i in rng.permutation(len(texts)))
  about = states | denies
  titles = tuple(about[text].subject for text in passages)
  return _indexed(passages, titles, entities, states)


def _entities(rng: np.random.Generator, people: int) -> dict[str, Entity]:
  """Returns the names of all, with every fifth of a kind in the test split."""
  others = people // _PEOPLE_OF_A_PLACE
  counts = {'person': people, 'place': others, 'event': others}
  total = sum(counts.values())
  names = invented_names(rng, total, 2 if total <= _SHORT_NAMES else 3)
  return {
    next(names): Entity(kind, splits.SPLITS[i % splits.TEST_SHARE == 0])
    for kind, count in counts.items()
    for i in range(count)
  }


def _pool(
  entities: Mapping[str, Entity], kind: str, split: str
) -> Sequence[str]:
  """Returns everything of a kind; of one split, unless it is ''."""
  if kind == 'number':
    return [str(age) for age in range(*_AGES)]
  return [
    name
    for name, x in entities.items()
    if x.kind == kind and split in ('', x.split)
  ]


def _text(fact: Fact, dated: bool, middle: str = '', end: str = '') -> str:
  year = f'{fact.year}: ' if dated else ''
  return (
    f"{year}{fact.subject}'s {fact.relation} is{middle} {fact.object}{end}."
  )


def _indexed(
  passages: tuple[str, ...],
  titles: tuple[str, ...],
  entities: Mapping[str, Entity],
  states: Mapping[str, Fact],
) -> Corpus:
  ids = {text: i for i, text in enumerate(passages)}
  facts = {ids[text]: fact for text, fact in states.items()}
  holds: dict[tuple[str, str], int] = {}
  older: dict[tuple[str, str], str] = {}
  for i in sorted(facts, key=lambda i: facts[i].year):
    key = facts[i].subject, facts[i].relation
    if key in holds:
      older[key] = facts[holds[key]].object
    holds[key] = i
  members: dict[tuple[str, str], tuple[int, ...]] = {}
  for i in sorted(holds.values()):
    key = facts[i].relation, facts[i].object
    members[key] = (*members.get(key, ()), i)
  return Corpus(passages, titles, facts, entities, ids, holds, older, members)
