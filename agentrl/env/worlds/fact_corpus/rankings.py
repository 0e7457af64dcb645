"""Rankings of passages for a query: by spelling, and by a graph.

That by words is `agentrl.tool.search.Index`.
"""

import functools
import re
import zlib
from collections.abc import Iterable, Sequence

import numpy as np

from agentrl.env.worlds.fact_corpus.pagerank import personalised_pagerank
from agentrl.tool.search import top

_GRAMS = (2, 3, 4)  # characters
_WIDTH = 512  # of vectors
_WORD = re.compile(r'\w+')


class Dense:
  """Texts as vectors of hashed character n-grams.

    score(q, d) = q·d / (‖q‖ ‖d‖),  x_j = |{n-grams of x : crc32 mod 512 = j}|

  n is 2, 3 and 4; a word has a mark at both ends. The product is of whole
  numbers, so that no machine rounds it differently.
  """

  def __init__(self, texts: Sequence[str]):
    vectors = np.stack([_vector(text) for text in texts])  # [N, 512]
    self._vectors = vectors
    self._norms = np.sqrt((vectors**2).sum(-1))  # [N]

  def best(self, query: str, most: int) -> list[int]:
    return top(self.scores(query), most).tolist()

  def scores(self, query: str) -> np.ndarray:
    """Scores the texts [N], in [0, 1]; 0 for a query without words."""
    vector = _vector(query)
    norms = self._norms * np.sqrt((vector**2).sum())
    return self._vectors @ vector / np.maximum(norms, 1.0)


class Graph:
  """Texts near those that match a query, by personalised PageRank.

  An edge joins a text and a term for each time that it stands there. The walk
  restarts at the texts with the most edges to terms of the query, so that they
  come first, and then what shares rare terms with them: the next facts of a
  chain. As HippoRAG (arXiv 2405.14831), which restarts at terms.
  """

  def __init__(self, texts: Sequence[str], terms: Iterable[str]):
    """Reads terms, which are single words, from texts; case does not count."""
    self._count = len(texts)
    nodes = {x.lower(): i for i, x in enumerate(terms, start=self._count)}
    self._nodes = nodes
    pairs = [(i, node) for i, x in enumerate(texts) for node in self._terms(x)]
    self._edges = np.array(pairs, np.int64).reshape(-1, 2)
    # Called from the threads of all environments, for few different queries.
    self.best = functools.lru_cache(maxsize=1024)(self._best)

  def _best(self, query: str, most: int) -> tuple[int, ...]:
    """Ranks texts; () where none has a term of the query."""
    texts, terms = self._edges.T
    matches = np.bincount(
      texts[np.isin(terms, self._terms(query))], minlength=self._count
    )
    if not matches.max(initial=0):
      return ()
    restart = np.zeros(self._count + len(self._nodes))
    restart[: self._count] = matches == matches.max()
    scores = personalised_pagerank(self._edges, restart)[: self._count]
    # Other machines may round sums differently, but not in what is left here.
    return tuple(top(np.round(scores, 9), most).tolist())

  def _terms(self, text: str) -> list[int]:
    """Lists nodes of the terms in a text, as often as they stand there."""
    words = _WORD.findall(text.lower())
    return [self._nodes[x] for x in words if x in self._nodes]


def _vector(text: str) -> np.ndarray:
  """Counts hashed n-grams: [512]."""
  out = np.zeros(_WIDTH, np.int32)
  for word in _WORD.findall(text.lower()):
    marked = f'^{word}$'
    for n in _GRAMS:
      for i in range(len(marked) - n + 1):
        gram = marked[i : i + n].encode(errors='surrogatepass')
        out[zlib.crc32(gram) % _WIDTH] += 1
  return out
