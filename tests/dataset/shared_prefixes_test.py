"""Shared prefixes: gradients of paths against those of the tree."""

import numpy as np
import pytest

from agentrl.dataset import shared_prefixes
from tests.dataset.stored_cases import story
from tests.dataset.stored_cases import turn as make_turn


def _tree(r, depth: int, path=()):
  """Paths from the root to the leaves of a random tree of turns."""
  made = (*path, make_turn(r, *r.integers(1, 4, 2)))
  if depth == 0:
    return [made]
  children = int(r.integers(0, 4))
  return [p for _ in range(children) for p in _tree(r, depth - 1, made)] or [
    made
  ]


def _slope(before: tuple, token: int) -> np.ndarray:
  """A made-up gradient of −log π(token | all tokens before it)."""
  seed = np.random.default_rng([token, *before])
  return seed.normal(size=3)


def _gradient(paths, weights):
  """Σ w ∇(−log π), each token behind all that its path holds before it."""
  total = np.zeros(3)
  for path, several in zip(paths, weights, strict=True):
    before: tuple = ()
    for one, weight in zip(path, several, strict=True):
      before += tuple(map(int, one.context))
      for token, w in zip(one.message, weight, strict=True):
        total += float(w) * _slope(before, int(token))
        before += (int(token),)
  return total


@pytest.mark.parametrize('seed', range(6))
def test_paths_of_a_tree_have_the_gradient_of_the_tree(seed):
  """That of its turns, each once, whatever number of leaves is below it."""
  r = np.random.default_rng(seed)
  paths = _tree(r, 3)
  seen: set[int] = set()
  once = []
  for path in paths:  # the first path that holds a turn has its weight
    new = [id(x) not in seen for x in path]
    once.append([x.weight * n for x, n in zip(path, new, strict=True)])
    seen |= {id(x) for x in path}
  stored = [story(0, turns=0, task=1)._replace(turns=path) for path in paths]
  shared = shared_prefixes.share_prefixes([*stored, story(3, turns=0)])
  assert shared[-1].turns == ()
  weights = [[t.weight for t in x.turns] for x in shared[:-1]]
  np.testing.assert_allclose(
    _gradient(paths, weights), _gradient(paths, once), rtol=1e-5, atol=1e-6
  )
  plain = [[x.weight for x in path] for path in paths]
  if len(paths) > 1:
    assert not np.allclose(_gradient(paths, plain), _gradient(paths, once))
  # As a log of branches has it: what they repeat has no weight there.
  branched = [
    x._replace(
      turns=tuple(
        t._replace(weight=w) for t, w in zip(x.turns, own, strict=True)
      )
    )
    for x, own in zip(stored, once, strict=True)
  ]
  for power, want in ((1.0, once), (0.0, plain)):
    got = shared_prefixes.share_prefixes(branched, power)
    np.testing.assert_allclose(
      _gradient(paths, [[t.weight for t in x.turns] for x in got]),
      _gradient(paths, want),
      rtol=1e-5,
      atol=1e-6,
    )


def test_equal_turns_behind_others_or_of_other_tasks_are_not_shared():
  r = np.random.default_rng(0)
  a, b, c = (make_turn(r, 2, 3) for _ in range(3))
  one, two = (
    story(0, turns=0, task=1)._replace(turns=x) for x in ((a, c), (b, c))
  )
  assert shared_prefixes.share_prefixes([one, two]) == [one, two]
  other = one._replace(task=2)
  assert shared_prefixes.share_prefixes([one, other]) == [one, other]
  # In rows of one turn each, c is c.
  short = [x._replace(history='turn') for x in (one, two)]
  got = shared_prefixes.share_prefixes(short)
  for x in got:
    np.testing.assert_allclose(x.turns[1].weight, c.weight / 2)
  assert shared_prefixes.share_prefixes([]) == []
