"""The tree of a search at one task, and its budget of calls."""

import math
from collections.abc import Sequence

import numpy as np

from agentrl.ops import tree_search
from agentrl.rollout.forks import Played

ROOT = 0


class Tree:
  """Nodes are places, numbered in the order in which they were found.

  value: what the searcher knows of a node, from its evaluator; None: nothing.
  tries: calls that were spent on going on from a node. A message that leads
  where another of the same node did is that other child.
  parsed: what the message that led to a node says; None: it was malformed.
  said: whether there was one; False: the context had no room for it.
  """

  def __init__(self, place: int, *, calls: int, turns: int):
    """Plants the root.

    Args:
      calls: budget, messages that may be asked for
      turns: of a trajectory at most
    """
    self.turns, self.left, self.spent = turns, calls, 0
    n = calls + 1
    self.parent = np.full(n, -1)  # [N]
    self.visits, self.total = np.zeros(n), np.zeros(n)  # [N] backed up
    self.place = [place]
    self.depth, self.tries = [0], [0]
    self.value: list[float | None] = [None]
    self.score, self.ended = [0.0], [False]
    self.parsed: list[str | None] = ['']
    self.said = [True]
    self.children: list[list[int]] = [[]]
    self._same: dict[tuple[int, tuple[int, ...], bytes], int] = {}

  def __len__(self) -> int:
    return len(self.place)

  @property
  def open(self) -> bool:
    """Whether a call is left and no end is known to be a success."""
    return self.left > 0 and not any(
      end and self.known(i) >= 1 for i, end in enumerate(self.ended)
    )

  def add(self, parent: int, played: Played, value: float | None) -> int:
    """Adds what a call has found; returns the node that it led to."""
    self.left -= 1
    self.spent += 1
    self.tries[parent] += 1
    same = parent, played.message, played.state
    node = self._same.setdefault(same, len(self))
    if node < len(self):
      return node
    self.parent[node] = parent
    self.children[parent].append(node)
    self.place.append(played.place)
    self.depth.append(self.depth[parent] + 1)
    self.tries.append(0)
    self.value.append(value)
    self.score.append(played.score)
    self.ended.append(played.ended)
    self.parsed.append(played.parsed)
    self.said.append(bool(played.message))
    self.children.append([])
    return node

  def known(self, node: int) -> float:
    """Returns the value of a node; −∞ where nothing is known of it."""
    value = self.value[node]
    return -math.inf if value is None else value

  def mean(self, nodes: Sequence[int]) -> np.ndarray:
    """Returns Q, the mean of what was backed up through nodes: [A]."""
    at = np.asarray(nodes, int)
    return self.total[at] / np.maximum(self.visits[at], 1)

  def back_up(self, node: int, value: float) -> None:
    """Counts a visit of a node on its whole path."""
    self.visits, self.total = tree_search.backed_up(
      self.parent, self.visits, self.total, node, value
    )

  def closed(self, node: int, width: int) -> bool:
    """Returns whether nothing is left to try at a node and below it."""
    if self.ended[node]:
      return True
    if self.tries[node] < width:
      return False
    return all(self.closed(x, width) for x in self.children[node])

  def best(self) -> int:
    """Returns the node to answer with: the end of the highest value.

    Of equal ones the first; without an end the highest of all leaves.
    """
    nodes = range(len(self))
    ends = [x for x in nodes if self.ended[x]]
    leaves = [x for x in nodes if not self.children[x]]
    return max(ends or leaves, key=self.known)

  def path(self, node: int) -> list[int]:
    """Lists the nodes from the root to one."""
    return tree_search.path(self.parent, node)[::-1].tolist()
