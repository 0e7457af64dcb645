"""Tool graph whose edges remember the states in which they were taken.

From recorded calls, an edge u -> v has a count and the state of every time it
was taken ("SIT-Graph: State Integrated Tool Graph for Multi-Turn Agents"):

    P(v | u) = count(u, v) / Σ_w count(u, w)

    routine   argmax_v P(v | u), if P >= `sure` and P(. | u) has an entropy of
              at most `even` nats: no state is read
    recall    otherwise the k states over the edges of u that are most similar
              (cosine) to the state now; the tool of the largest sum of them

Nothing is trained; a policy that is frozen gets the tool as a suggestion, and
chooses itself where u was never left.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

START = -1  # where a conversation begins: the row behind all tools


class Call(NamedTuple):
  """A call of a tool, in a state."""

  tool: int
  state: np.ndarray  # [D] summary of the conversation before the call


class Graph(NamedTuple):
  """Calls by the tool before them; n tools."""

  counts: np.ndarray  # [n + 1, n] from, to; the last row is START
  before: np.ndarray  # [E] i64  tool before each call
  tool: np.ndarray  # [E] i64
  state: np.ndarray  # [E, D] unit length


class Advice(NamedTuple):
  """A suggested tool; None where nothing is known."""

  tool: int | None
  recalled: bool  # states were read


def build(recorded: Sequence[Sequence[Call]], tools: int) -> Graph:
  """Builds the graph of recorded conversations."""
  before, tool, state = [], [], []
  for calls in recorded:
    before += [START, *(x.tool for x in calls[:-1])]
    tool += [x.tool for x in calls]
    state += [x.state for x in calls]
  count = np.zeros((tools + 1, tools), np.int64)
  np.add.at(count, (np.array(before), np.array(tool)), 1)
  return Graph(count, np.array(before), np.array(tool), _unit(np.array(state)))


def probabilities(graph: Graph, u: int) -> np.ndarray:
  """Computes P(. | u): [n]; 0 where u was never left."""
  count = graph.counts[u]
  return count / max(count.sum(), 1)


def entropy(p: np.ndarray) -> float:
  """Computes −Σ p ln p, nats."""
  some = p[p > 0]
  return float(-np.sum(some * np.log(some)))


def routine(
  graph: Graph, u: int, *, sure: float = 0.0, even: float = np.inf
) -> int | None:
  """Returns the likeliest tool if it is likely enough."""
  p = probabilities(graph, u)
  if not p.any() or p.max() < sure or entropy(p) > even:
    return None
  return int(np.argmax(p))


def recall(graph: Graph, u: int, state: np.ndarray, k: int) -> int | None:
  """Returns the tool of the k most similar states in which u was left."""
  edges = np.flatnonzero(graph.before == u)
  if not edges.size:
    return None
  near = graph.state[edges] @ _unit(state)
  top = np.argsort(-near, kind='stable')[:k]
  # A similarity below 0 speaks for no tool; the nearest where none speaks.
  if near[top[0]] <= 0:
    return int(graph.tool[edges[top[0]]])
  votes = np.bincount(graph.tool[edges[top]], np.maximum(near[top], 0))
  return int(np.argmax(votes))


def advise(
  graph: Graph,
  u: int,
  state: np.ndarray,
  *,
  sure: float = 0.8,
  even: float = 0.8,
  k: int = 5,
) -> Advice:
  """Suggests by routine where that is sure, else by recall."""
  tool = routine(graph, u, sure=sure, even=even)
  if tool is not None:
    return Advice(tool, recalled=False)
  tool = recall(graph, u, state, k)
  return Advice(tool, recalled=tool is not None)


def _unit(x: np.ndarray) -> np.ndarray:
  norm = np.linalg.norm(x, axis=-1, keepdims=True)
  return x / np.maximum(norm, 1e-12)
