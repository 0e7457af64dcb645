"""The tool graph: counts and cosines by hand, and by brute force."""

import collections

import numpy as np
import pytest

from agentrl.lab.papers.tool_graph import graph as lib
from agentrl.lab.papers.tool_graph.graph import START, Advice, Call

EAST, NORTH = np.array([1.0, 0.0]), np.array([0.0, 2.0])


def graph(*conversations, tools=5):
  return lib.build([[Call(*x) for x in c] for c in conversations], tools)


def test_probabilities_are_shares_of_calls():
  rng = np.random.default_rng(0)
  told = [
    [Call(int(t), rng.normal(size=3)) for t in rng.integers(0, 4, 6)]
    for _ in range(20)
  ]
  pairs = collections.Counter(
    (a, b)
    for calls in told
    for a, b in zip(
      [START, *(x.tool for x in calls)], [x.tool for x in calls], strict=False
    )
  )
  g = lib.build(told, 4)
  for u in (*range(4), START):
    total = sum(n for (a, _), n in pairs.items() if a == u)
    want = [pairs[u, v] / total for v in range(4)]
    np.testing.assert_allclose(lib.probabilities(g, u), want)
    logs = [p * np.log(p) for p in want if p]
    assert lib.entropy(np.array(want)) == pytest.approx(-sum(logs))


def test_routine_needs_a_likely_tool_and_few_others():
  g = graph(*[[(0, EAST)]] * 3, [(1, EAST)])
  assert lib.routine(g, START) == 0
  assert lib.routine(g, START, sure=0.75) == 0
  assert lib.routine(g, START, sure=0.76) is None
  h = lib.entropy(np.array([0.75, 0.25]))
  assert lib.routine(g, START, even=h + 1e-9) == 0
  assert lib.routine(g, START, even=h - 1e-9) is None
  assert lib.routine(g, 0) is None  # it was never left


def test_recall_follows_the_state_and_not_the_count():
  g = graph(*[[(0, EAST)]] * 3, [(1, NORTH)])
  assert lib.recall(g, START, np.array([0.1, 9.0]), k=1) == 1
  assert lib.recall(g, START, np.array([9.0, 0.1]), k=1) == 0
  # Of all four, what is alike outweighs what is frequent, where it is enough.
  assert lib.recall(g, START, np.array([1.0, 2.9]), k=4) == 0  # 3 of 1
  assert lib.recall(g, START, np.array([1.0, 3.1]), k=4) == 1
  assert lib.recall(g, 1, EAST, k=1) is None


def test_recall_reads_edges_of_the_tool_alone():
  g = graph([(0, EAST), (1, EAST), (2, NORTH)], [(3, NORTH)])
  assert lib.recall(g, 0, NORTH, k=3) == 1
  assert lib.recall(g, START, NORTH, k=1) == 3


def test_a_state_that_is_opposite_speaks_for_no_tool():
  g = graph([(0, -EAST)], [(0, -EAST)], [(1, np.array([0.1, 1.0]))])
  assert lib.recall(g, START, EAST, k=3) == 1


def test_advice_reads_states_only_where_routine_is_not_sure():
  sure = graph(*[[(0, EAST)]] * 9, [(1, NORTH)])
  assert lib.advise(sure, START, NORTH) == Advice(0, recalled=False)
  assert lib.advise(sure, START, NORTH, sure=0.95, k=1) == Advice(
    1, recalled=True
  )
  assert lib.advise(sure, 4, NORTH) == Advice(None, recalled=False)
