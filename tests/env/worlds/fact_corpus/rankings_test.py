"""Rankings by spelling and by a graph, computed here by hand."""

import collections
import json
import os
import subprocess
import sys
import zlib

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.env.worlds.fact_corpus.pagerank import personalised_pagerank
from agentrl.env.worlds.fact_corpus.rankings import Dense, Graph

TEXTS = (
  "Bako's home is Tebu.",
  "Tebu's mayor is Nalo.",
  "Nalo's home is Sarn.",
  "Rife's site is Tebu.",
  "Sarn's feast is Rife.",
)
NAMES = ('Bako', 'Tebu', 'Nalo', 'Sarn', 'Rife', 'home', 'mayor', 'site')


def grams(text):
  """Bucket -> count, by the words of a docstring."""
  for mark in "'.":
    text = text.replace(mark, ' ')
  return collections.Counter(
    zlib.crc32(marked[i : i + n].encode()) % 512
    for marked in (f'^{word}$' for word in text.lower().split())
    for n in (2, 3, 4)
    for i in range(len(marked) - n + 1)
  )


def cosine(a, b):
  product = sum(a[x] * b[x] for x in a)
  lengths = [sum(x * x for x in y.values()) ** 0.5 for y in (a, b)]
  return product / max(lengths[0] * lengths[1], 1)


@given(st.text(alphabet="abekorst '.", max_size=30))
@settings(max_examples=50, deadline=None)
def test_dense_is_the_cosine_of_its_grams(query):
  scores = Dense(TEXTS).scores(query)
  want = [cosine(grams(query), grams(text)) for text in TEXTS]
  np.testing.assert_allclose(scores, want, atol=1e-12)
  best = Dense(TEXTS).best(query, 5)
  assert [i for i in best if want[i] <= 0] == []
  assert np.all(np.diff(scores[best]) <= 0)


def test_dense_is_the_same_whatever_python_hashes():
  code = (
    'import json;from agentrl.env.worlds.fact_corpus.rankings import Dense;'
    f'd=Dense({TEXTS!r});'
    'print(json.dumps([d.best(q, 5) for q in ("bako home", "nal", "rif teb")]))'
  )
  done = subprocess.run(
    [sys.executable, '-c', code],
    env={**os.environ, 'PYTHONHASHSEED': '7'},
    capture_output=True,
    text=True,
    check=True,
  )
  dense = Dense(TEXTS)
  here = [dense.best(q, 5) for q in ('bako home', 'nal', 'rif teb')]
  assert json.loads(done.stdout) == here


def test_graph_is_pagerank_over_texts_and_terms():
  """Edges and restart written out."""
  words = '5 6 10, 6 7 11, 7 8 10, 6 9 12, 8 9'  # of each text, as nodes
  edges = np.array(
    [
      (i, int(x))
      for i, some in enumerate(words.split(','))
      for x in some.split()
    ]
  )
  graph = Graph(TEXTS, NAMES)
  # The one text that has both words is where the walk begins again.
  for query, start in (('home of BAKO?', 0), ('Nalo home', 2)):
    restart = np.eye(13)[start]
    want = personalised_pagerank(edges, restart)[:5].round(9)
    order = np.argsort(-want, stable=True).tolist()
    assert graph.best(query, 5) == tuple(order)
    assert graph.best(query, 2) == tuple(order[:2])


def test_graph_without_a_term():
  graph = Graph(TEXTS, (*NAMES, 'lonely'))
  for query in ('', 'zebra', 'lonely', '\udc80'):
    assert graph.best(query, 3) == ()
