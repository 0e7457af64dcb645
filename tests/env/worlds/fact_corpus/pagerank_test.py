"""Personalised PageRank against networkx, and against its equation."""

import numpy as np
import pytest

from agentrl.env.worlds.fact_corpus.pagerank import personalised_pagerank
from tests import errors


def random_graph(seed):
  """Edges without repetition, some nodes without any, and a restart."""
  rng = np.random.default_rng(seed)
  nodes = int(rng.integers(3, 40))
  pairs = np.argwhere(np.triu(rng.random((nodes, nodes)) < 0.1, 1))
  restart = rng.random(nodes) * (rng.random(nodes) < 0.4)
  restart[rng.integers(nodes)] += 1
  return nodes, pairs.reshape(-1, 2), restart


@pytest.mark.parametrize('damping', [0.5, 0.85])
def test_it_is_that_of_networkx(damping):
  networkx = pytest.importorskip('networkx')
  for seed in range(30):
    nodes, edges, restart = random_graph(seed)
    graph = networkx.Graph()
    graph.add_nodes_from(range(nodes))
    graph.add_edges_from(edges.tolist())
    want = networkx.pagerank(
      graph,
      alpha=damping,
      personalization=dict(enumerate(restart)),
      tol=1e-14,
      max_iter=1000,
    )
    p = personalised_pagerank(edges, restart, damping=damping)
    np.testing.assert_allclose(p, [want[i] for i in range(nodes)], atol=1e-8)


DAMPINGS = [0.0, 0.3, 0.85, 0.995, 0.99999, 1 - 1e-9, 1 - 1e-12, 1 - 2**-53]


@pytest.mark.parametrize('damping', DAMPINGS)
def test_every_damping_is_solved(damping):
  """A path of two nodes beside a node without edges and one of its own."""
  edges = np.array([[0, 1], [3, 3]])
  r = np.array([0.4, 0.0, 0.2, 0.4])
  p = personalised_pagerank(edges, r, damping=damping)
  stays, left = 1 / (1 + damping), 1 - damping
  want = np.array([0.4 * stays, 0.4 * damping * stays, 0.2 * left, 0.4])
  np.testing.assert_allclose(p, want / want.sum(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize('damping', [0.5, 0.85, 0.995, 0.9999, 1 - 1e-10])
@pytest.mark.parametrize('seed', range(5))
def test_it_solves_its_equation(seed, damping):
  """With each edge as often as it is given, and slow walks too."""
  nodes, edges, restart = random_graph(seed)
  edges = np.concatenate([edges, edges[::2]])
  r = restart / restart.sum()
  p = personalised_pagerank(edges, restart, damping=damping)
  flow = np.zeros(nodes)
  for a, b in [*edges, *edges[:, ::-1]]:
    flow[b] += p[a] / np.sum(edges == a)
  stuck = ~np.isin(np.arange(nodes), edges)
  after = damping * (flow + r * p[stuck].sum()) + (1 - damping) * r
  np.testing.assert_allclose(after, p, atol=1e-13)
  assert p.min() >= 0
  assert p.sum() == pytest.approx(1, abs=1e-12)


def test_without_edges_the_walk_stays():
  none = np.zeros((0, 2), np.int64)
  p = personalised_pagerank(none, np.array([1.0, 3.0]))
  np.testing.assert_allclose(p, [0.25, 0.75])


def test_bad_arguments():
  edges = np.array([[0, 1]])
  with pytest.raises(ValueError):
    personalised_pagerank(edges, np.zeros(2))
  with pytest.raises(ValueError):
    personalised_pagerank(edges, np.array([2.0, -1.0]))
  with errors.raises(ValueError, 'damping 1 0'):
    personalised_pagerank(edges, np.ones(2), damping=1)
