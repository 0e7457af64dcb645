"""Clusters of texts that are like each other."""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.cluster import hierarchy
from scipy.spatial import distance


def clusters(
  texts: Sequence[str],
  similarity: Callable[[str, str], float],
  *,
  apart: float = 0.5,
) -> np.ndarray:
  """Joins the two nearest clusters while their distance is at most `apart`:

    d(C, D) = mean of (s(a, b) + s(b, a)) / 2 taken from 1, a in C and b in D

  Average linkage. Equal texts have distance 0, whatever s is of them.

  Args:
    similarity: s, in [0, 1]; it need not be symmetric
  Returns: ids of the clusters, equal for texts of one: [n] i32
  """
  kinds = sorted(set(texts))
  place = np.array([kinds.index(x) for x in texts], np.int32)
  if len(texts) < 2:
    return place
  table = np.zeros((len(kinds), len(kinds)))
  for i, a in enumerate(kinds):
    for j, b in enumerate(kinds[:i]):
      table[i, j] = table[j, i] = 1 - (similarity(a, b) + similarity(b, a)) / 2
  pairs = distance.squareform(table[np.ix_(place, place)], checks=False)
  joined = hierarchy.linkage(pairs, 'average')
  return hierarchy.fcluster(joined, apart, 'distance').astype(np.int32)


def shares(ids: np.ndarray) -> np.ndarray:
  """Computes |cluster of i| / n of every text: [n] f64."""
  return np.mean(ids[:, None] == ids[None], axis=1) if ids.size else ids * 1.0
