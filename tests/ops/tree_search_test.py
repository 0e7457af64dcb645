"""Tree maths against recursion over explicit trees, in float64."""

import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.ops import tree_search


def drawn(seed, n=24):
  """A random tree: parents [n], and a value for each node."""
  rng = np.random.default_rng(seed)
  parent = np.array([-1, *(rng.integers(i) for i in range(1, n))])
  return parent, rng.normal(size=n)


def below(parent, node):
  """All nodes of a subtree, by recursion."""
  children = [i for i in range(len(parent)) if parent[i] == node]
  return [node, *(x for child in children for x in below(parent, child))]


def test_uct_is_its_equation():
  mean, visits = np.array([0.25, 0.5, 0.0]), np.array([3.0, 1.0, 0.0])
  got = tree_search.uct(mean, visits, 4, c=0.7)
  want = [m + 0.7 * np.sqrt(np.log(4) / n) for m, n in ((0.25, 3), (0.5, 1))]
  np.testing.assert_allclose(got[:2], want, rtol=1e-12)
  assert got[2] == np.inf
  one_more = tree_search.uct(mean, visits, 4, c=0.7, extra=1)
  want = mean + 0.7 * np.sqrt(np.log(4) / np.array([4.0, 2.0, 1.0]))
  np.testing.assert_allclose(one_more, want, rtol=1e-12)


def test_puct_is_its_equation():
  mean, visits = np.array([0.25, 0.5]), np.array([3.0, 1.0])
  prior = np.array([0.9, 0.1])
  got = tree_search.puct(mean, visits, prior, c=2.0)
  want = [0.25 + 2 * 0.9 * 2 / 4, 0.5 + 2 * 0.1 * 2 / 2]
  np.testing.assert_allclose(got, want, rtol=1e-12)


def test_scores_are_the_same_inside_jit():
  mean, visits = np.array([0.25, 0.5, 0.0]), np.array([3.0, 1.0, 0.0])
  np.testing.assert_allclose(
    tree_search.uct(jnp.array(mean), jnp.array(visits), 4.0, xp=jnp),
    tree_search.uct(mean, visits, 4.0),
    rtol=1e-6,
  )
  score = np.array([3.0, 1.0, 3.0, 2.0])
  np.testing.assert_allclose(
    tree_search.by_rank(jnp.array(score), xp=jnp), tree_search.by_rank(score)
  )


@pytest.mark.parametrize('seed', range(3))
def test_backup_means_are_means_over_subtrees(seed):
  parent, value = drawn(seed)
  visits, total = np.zeros(len(parent)), np.zeros(len(parent))
  running = np.zeros(len(parent))  # Q <- (Q n + v) / (n + 1)
  for node, v in enumerate(value):
    for i in tree_search.path(parent, node):
      running[i] = (running[i] * visits[i] + v) / (visits[i] + 1)
    visits, total = tree_search.backed_up(parent, visits, total, node, v)
  want = [np.mean(value[below(parent, i)]) for i in range(len(parent))]
  np.testing.assert_allclose(total / visits, want, rtol=1e-12, atol=1e-12)
  np.testing.assert_allclose(running, want, rtol=1e-12, atol=1e-12)
  np.testing.assert_allclose(
    tree_search.subtree_sums(parent, value), total, atol=1e-12
  )


def test_best_below_is_the_maximum_of_each_subtree():
  parent, value = drawn(7)
  want = [np.max(value[below(parent, i)]) for i in range(len(parent))]
  np.testing.assert_array_equal(tree_search.best_below(parent, value), want)


def test_ranks_of_siblings():
  rank = tree_search.by_rank(np.array([5.0, 1.0, 5.0, 3.0]))
  np.testing.assert_allclose(rank, [2.5 / 3, 0, 2.5 / 3, 1 / 3])
  np.testing.assert_array_equal(tree_search.by_rank(np.array([2.0])), [0.5])
  np.testing.assert_array_equal(tree_search.by_rank(np.zeros(3)), [0.5] * 3)


def test_pairs_are_of_siblings_and_beyond_the_margin():
  parent = np.array([-1, 0, 0, 0, 1, 1])
  value = np.array([0.0, 0.9, 0.5, 0.4, 0.0, 1.0])
  got = {tuple(x) for x in tree_search.sibling_pairs(parent, value, margin=0.2)}
  assert got == {(1, 2), (1, 3), (5, 4)}


def test_mixing_is_linear():
  assert tree_search.mixed(1.0, 0.0, alpha=0.25) == 0.25
