"""Search against its formula, computed here by hand."""

import collections
import json
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.runtime import install
from agentrl.tool import search
from tests import errors

pytest.importorskip('bm25s', reason=install.command('host'))

PASSAGES = [
  {'title': 'Cats', 'text': 'A cat sleeps. The cat purrs at night.'},
  {'title': 'Dogs', 'text': 'Dogs bark, and a dog chases the cat.'},
  {'text': 'Owls hunt at night; nobody hears owls.'},
  {'title': 'Mice', 'text': 'Mouse, mouse, mouse: cheese.'},
  {'text': 'Dogs bark, and a dog chases the cat. Dogs.'},
]


def written(path, lines):
  path.write_text('\n'.join(lines), encoding='utf-8')
  return path


@pytest.fixture(scope='module')
def corpus(tmp_path_factory):
  path = tmp_path_factory.mktemp('corpus') / 'corpus.jsonl'
  return written(path, [json.dumps(p) for p in PASSAGES] + [''])


STOP = {'a', 'the', 'at', 'and'}


def words(text):
  found = re.findall(r'\b\w\w+\b', text.lower())
  return [word for word in found if word not in STOP]


def truth(query):
  """Indices of the passages by falling score, those with 0 left out."""
  docs = [words(p.get('title', '') + '\n' + p['text']) for p in PASSAGES]
  mean = sum(map(len, docs)) / len(docs)
  scores = []
  for doc in docs:
    counts, score = collections.Counter(doc), 0.0
    for term in words(query):
      n = sum(term in other for other in docs)
      idf = math.log(1 + (len(docs) - n + 0.5) / (n + 0.5))
      f = counts[term]
      score += idf * f / (f + 1.5 * (0.25 + 0.75 * len(doc) / mean))
    scores.append(score)
  order = sorted(range(len(docs)), key=lambda i: -scores[i])
  return [i for i in order if scores[i] > 0]


@pytest.mark.parametrize(
  'query', ['cat', 'night', 'dog cat', 'owls at NIGHT?', 'cheese bark cat mice']
)
def test_the_best_passages_by_the_formula(corpus, query):
  found = search.Search(corpus, passages=5)(query=query)
  want = []
  for place, i in enumerate(truth(query), 1):
    title = PASSAGES[i].get('title')
    want.append(f'[{place}] ' + (f'{title}\n' if title else ''))
    want[-1] += PASSAGES[i]['text']
  assert found == '\n\n'.join(want)
  assert search.Search(corpus, passages=1)(query=query) == want[0]


@pytest.mark.parametrize(
  'query', ['', 'the', 'zebra', '?! \x00 \udc80', 'x' * 10**5]
)
def test_nothing_is_found(corpus, query):
  assert 'No passage' in search.Search(corpus)(query=query)


def test_an_answer_is_cut(corpus):
  found = search.Search(corpus, characters=20)(query='cat')
  assert found.startswith('[1] Cats\nA cat sleep\n(cut: ')


@settings(max_examples=50, deadline=None)
@given(
  scores=st.lists(st.integers(0, 3), min_size=1, max_size=12),
  k=st.integers(1, 14),
)
def test_equal_scores_keep_their_order(scores, k):
  best = search.top(np.array(scores, np.float32), k)
  order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
  assert list(best) == [i for i in order if scores[i] > 0][:k]


@pytest.mark.parametrize(
  ('lines', 'match'),
  [
    ([], ''),
    (['{"text": "a"}', 'b'], '2 b'),
    (['{"txt": "a"}'], '1'),
    (['{"text": 1}'], '1'),
    (['["a"]'], '1'),
  ],
)
def test_a_bad_corpus_is_named(tmp_path, lines, match):
  with errors.raises(ValueError, match):
    search.Search(written(tmp_path / 'c.jsonl', lines))


def test_mistakes_are_named(tmp_path, corpus):
  with errors.raises(ValueError, 'gone'):
    search.Search(tmp_path / 'gone')
  with errors.raises(ValueError, 'passages 0'):
    search.Search(corpus, passages=0)
