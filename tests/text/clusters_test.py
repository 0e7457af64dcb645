"""Average linkage against a search over all pairs of clusters."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.text.clusters import clusters, shares


def jaccard(a, b):
  """Not symmetric in length, to see that both ways count."""
  return len(set(a) & set(b)) / max(len(set(a)), 1)


def naive(texts, apart):
  """Joins the nearest two, by all pairs of members, while they are near."""

  def distance(a, b):
    return 0.0 if a == b else 1 - (jaccard(a, b) + jaccard(b, a)) / 2

  groups = [[i] for i in range(len(texts))]
  while len(groups) > 1:
    far, (i, j) = min(
      (
        np.mean([distance(texts[a], texts[b]) for a in x for b in y]),
        (i, j),
      )
      for (i, x), (j, y) in itertools.combinations(enumerate(groups), 2)
    )
    if far > apart:
      break
    groups[i] += groups.pop(j)
  return {frozenset(x) for x in groups}


@settings(max_examples=60, deadline=None)
@given(
  st.lists(st.text('abcdefg', max_size=5), max_size=7), st.integers(0, 1000)
)
def test_is_average_linkage(texts, seed):
  # Bounds that no mean of such distances is, and few ties.
  apart = 0.1 + 0.8 * np.random.default_rng(seed).random()
  ids = clusters(texts, jaccard, apart=apart)
  assert ids.shape == (len(texts),)
  got = {frozenset(np.flatnonzero(ids == x)) for x in ids}
  want = naive(texts, apart)
  if got != want:  # of equally near pairs either may be joined first
    sizes = sorted(map(len, got)), sorted(map(len, want))
    ties = [
      jaccard(a, b) + jaccard(b, a) for a, b in itertools.combinations(texts, 2)
    ]
    assert len(set(ties)) < len(ties), sizes


def test_equal_texts_are_one_whatever_is_said_of_them():
  ids = clusters(['', 'x', '', 'y', 'x'], lambda a, b: 0.0)
  np.testing.assert_array_equal(ids[:, None] == ids[None], [
    [1, 0, 1, 0, 0],
    [0, 1, 0, 0, 1],
    [1, 0, 1, 0, 0],
    [0, 0, 0, 1, 0],
    [0, 1, 0, 0, 1],
  ])  # fmt: skip
  np.testing.assert_allclose(shares(ids), [0.4, 0.4, 0.4, 0.2, 0.4])


def test_a_chain_is_not_drawn_together():
  """Means over all pairs: the ends of a chain are too far apart."""
  near = {('a', 'b'): 0.6, ('b', 'c'): 0.6, ('a', 'c'): 0.0}
  likeness = lambda x, y: near[min(x, y), max(x, y)]  # noqa: E731
  ids = clusters(['a', 'b', 'c'], likeness)
  assert len(set(ids)) == 2


def test_of_one_or_none():
  assert clusters([], jaccard).shape == (0,)
  assert shares(clusters([], jaccard)).shape == (0,)
  np.testing.assert_allclose(shares(clusters(['a'], jaccard)), [1.0])
