"""Masked texts: facts in a row, whose objects are what the agent fills in.

  Bako's home is _. Its mayor is _. Bako's age is _.    Tebu, Nalo, 31

A relation of the path is of the entity that the text begins with, or, behind a
dot, of the object before it: ('home', '.mayor', 'age'). The text itself is in
no passage, its facts are. After retrieval-augmented mask prediction, whose
texts are of an encyclopaedia (MaskSearch, arXiv 2505.20285).
"""

from collections.abc import Iterator, Sequence

import numpy as np

from agentrl.env.worlds.fact_corpus.corpus import RELATIONS, Corpus

KIND = 'masked'  # of a question
OF_LAST = '.'  # before a relation of the object before it


def text(start: str, path: Sequence[str]) -> str:
  """Returns the text as the agent reads it."""
  return ' '.join(
    f'Its {relation[1:]} is _.'
    if relation.startswith(OF_LAST)
    else f"{start}'s {relation} is _."
    for relation in path
  )


def follow(
  corpus: Corpus, start: str, path: Sequence[str]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
  """Lists passages of the facts and their objects, up to a missing one."""
  passages: list[int] = []
  objects = [start]
  for relation in path:
    last = relation.startswith(OF_LAST)
    subject = objects[-1] if last else start
    passage = corpus.holds.get((subject, relation.removeprefix(OF_LAST)))
    if passage is None:
      break
    passages.append(passage)
    objects.append(corpus.facts[passage].object)
  return tuple(passages), tuple(objects[1:])


def walk(
  corpus: Corpus, start: str, spans: int, rng: np.random.Generator
) -> tuple[str, ...] | None:
  """Draws a random path of `spans` spans.

  None where it comes to a fact that is missing, to an object for the second
  time, or to nothing that is left to tell.
  """
  path: tuple[str, ...] = ()
  for _ in range(spans):
    fit = [x for x in _next(corpus, start, path) if x not in path]
    if not fit:
      return None
    path = (*path, fit[rng.integers(len(fit))])
    _, objects = follow(corpus, start, path)
    if len({start, *objects}) <= len(path):
      return None
  return path


def _next(corpus: Corpus, start: str, path: tuple[str, ...]) -> Iterator[str]:
  """Lists relations of the start, and of what the path has come to."""
  yield from RELATIONS[corpus.entities[start].kind]
  _, objects = follow(corpus, start, path)
  if objects and objects[-1] in corpus.entities:
    for relation in RELATIONS[corpus.entities[objects[-1]].kind]:
      yield OF_LAST + relation
