"""Keyword search in a corpus: BM25 of the library bm25s.

bm25s imports JAX if installed and runs a tiny program on it, so read a corpus
only after `jax.distributed.initialize`.
"""

import os
import pathlib
from typing import Any

import numpy as np

from agentrl.runtime import install, text_files
from agentrl.tool.base import shorten
from agentrl.tool.schema import schema


class Index:
  """Texts indexed by their words.

    score(q, d) = Σ_{t in q} ln(1 + (N - n_t + ½) / (n_t + ½))
                  · f_td / (f_td + k₁ (1 - b + b |d| / mean |d|))

  f_td: count of t in d; n_t: number of the N texts with t; k₁ = 1.5, b = 0.75.
  English stop words are ignored. Ties keep the order of the texts, so results
  are the same on every machine.
  """

  def __init__(self, texts: list[str]):
    """Indexes texts; ImportError if bm25s is not installed."""
    try:
      import bm25s
    except ImportError as error:
      raise ImportError(
        f'search needs bm25s; run {install.command("host")}'
      ) from error
    self._bm25s: Any = bm25s
    self._index = self._bm25s.BM25()
    self._index.index(self._words(texts), show_progress=False)

  def best(self, query: str, most: int) -> list[int]:
    """Returns the best matching texts that share a word with the query."""
    (words,) = self._words([query])
    scores = self._index.get_scores(words) if words else np.zeros(1)  # [N]
    return top(scores, most).tolist()

  def _words(self, texts: list[str]) -> list[list[str]]:
    return self._bm25s.tokenize(
      texts, stopwords='en', return_ids=False, show_progress=False
    )


class Search:
  """Tool that answers with the best matching passages of a corpus."""

  name = 'search'
  schema = schema(['query'], query='string')

  def __init__(
    self,
    corpus: str | os.PathLike,
    *,
    passages: int = 3,
    characters: int = 4000,
    about: str = 'a collection of passages',
  ):
    """Reads a corpus and indexes it in memory.

    Args:
      corpus: JSONL file of objects with text and, optionally, a title.
      passages: limit per call.
      characters: limit per answer.
      about: description of the corpus for the model.

    Raises:
      ValueError: an unreadable line, or an empty corpus.
      ImportError: bm25s is not installed.
    """
    if passages < 1:
      raise ValueError(f'passages must be at least 1, got {passages}')
    self._corpus = _read(pathlib.Path(corpus))
    self._passages, self._characters = passages, characters
    self.description = f'Searches {about} for words and returns the best ones.'
    self._index = Index([f'{title}\n{text}' for title, text in self._corpus])

  def __call__(self, query: str) -> str:
    best = self._index.best(query, self._passages)
    if not best:
      return 'No passage has any of these words.'
    passages = ('\n'.join(filter(None, self._corpus[i])) for i in best)
    results = (f'[{place}] {text}' for place, text in enumerate(passages, 1))
    return shorten('\n\n'.join(results), self._characters)


def top(scores: np.ndarray, k: int) -> np.ndarray:
  """Returns indices of the k best scores [N] above 0; ties in order."""
  least = np.partition(scores, -k)[-k] if k < len(scores) else 0.0
  good = np.flatnonzero((scores >= least) & (scores > 0))
  return good[np.argsort(-scores[good], kind='stable')][:k]


def _read(path: pathlib.Path) -> list[tuple[str, str]]:
  """Reads (title, text) of each passage."""
  try:
    lines = [(i, x) for i, x in text_files.lines(path) if x.strip()]
  except ValueError as error:
    raise ValueError(f'corpus {error}') from error
  out = [_passage(line, f'{path}:{number}') for number, line in lines]
  if not out:
    raise ValueError(f'corpus {path} must have at least one passage')
  return out


def _passage(line: str, place: str) -> tuple[str, str]:
  try:
    value = text_files.parse(line)
    title, text = value.get('title', ''), value['text']
    if isinstance(title, str) and isinstance(text, str):
      return title, text
  except (ValueError, AttributeError, KeyError):
    pass
  raise ValueError(
    f'{place} must be a passage such as {{"text": "...", "title": "..."}}, got'
    f' {line.strip()[:80]!r}'
  )
