"""Runs a searcher on the trees of several tasks at once, and counts."""

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from agentrl.lab.search.searchers import Searcher
from agentrl.lab.search.tree import Tree
from agentrl.rollout.forks import Ask, Forks, Played

# Values in [0, 1] of what was played, by which searchers choose; None: unknown.
Evaluator = Callable[[Sequence[Played]], Sequence[float | None]]


@dataclasses.dataclass(frozen=True)
class Searched:
  """What a searcher found at T tasks."""

  trees: list[Tree]
  answers: list[int]  # nodes
  counts: Mapping[str, int]  # of all tasks together, see forks.COUNTS

  def __add__(self, other: 'Searched') -> 'Searched':
    """Joins what was found at other tasks."""
    counts = collections.Counter(self.counts)
    counts.update(other.counts)
    return Searched(
      self.trees + other.trees, self.answers + other.answers, counts
    )

  @property
  def solved(self) -> np.ndarray:
    """Whether the answer to each task is a success: [T] bool."""
    found = zip(self.trees, self.answers, strict=True)
    return np.array([tree.score[node] > 0.5 for tree, node in found])

  @property
  def malformed(self) -> tuple[np.ndarray, np.ndarray]:
    """Whether each turn of the answers was malformed, and whose: [N] each."""
    bad: list[bool] = []
    task: list[int] = []
    for t, (tree, answer) in enumerate(
      zip(self.trees, self.answers, strict=True)
    ):
      way = [x for x in tree.path(answer)[1:] if tree.said[x]]
      bad += [tree.parsed[node] is None for node in way]
      task += [t] * len(way)
    return np.array(bad, bool), np.array(task, int)

  @property
  def reached(self) -> np.ndarray:
    """Whether any end in the tree of each task is a success: [T] bool."""
    return np.array([max(tree.score) > 0.5 for tree in self.trees])


def search(
  forks: Forks,
  tasks: Sequence[int],
  searcher: Searcher,
  evaluate: Evaluator,
  *,
  calls: int,
  turns: int,
) -> Searched:
  """Searches at each of the tasks, all of them in step.

  Args:
    tasks: their indices, all different
    calls: budget of each task, in messages of the policy
    turns: of a trajectory at most
  Raises:
    ValueError: a searcher asks for more than its budget.
  """
  trees = [Tree(x, calls=calls, turns=turns) for x in forks.begin(tasks)]
  runs = [searcher(tree) for tree in trees]
  answers = [-1] * len(trees)
  found: dict[int, list[int] | None] = dict.fromkeys(range(len(trees)))
  while found:
    wanted: dict[int, list[int]] = {}
    for i, nodes in found.items():
      try:
        wanted[i] = next(runs[i]) if nodes is None else runs[i].send(nodes)
      except StopIteration as end:
        answers[i] = end.value
    found = _grown(forks, trees, tasks, wanted, evaluate)
  counts = collections.Counter(forks.counts)
  return Searched(trees, answers, counts)


def outcome(played: Sequence[Played]) -> list[float | None]:
  """Values ends by the task's own score, and other states not at all."""
  return [x.score if x.ended else None for x in played]


def truth(played: Sequence[Played]) -> list[float | None]:
  """Values ends by the task's own score, others by the environment's."""
  return [x.score if x.ended else x.value for x in played]


def _grown(
  forks: Forks,
  trees: Sequence[Tree],
  tasks: Sequence[int],
  wanted: Mapping[int, Sequence[int]],
  evaluate: Evaluator,
) -> dict[int, list[int] | None]:
  """Asks for a message at each node that is wanted; returns where they led."""
  asks: list[Ask] = []
  for i, nodes in wanted.items():
    tree = trees[i]
    if len(nodes) > tree.left:
      raise ValueError(
        f'a searcher must ask for <= {tree.left} messages, got {len(nodes)}'
      )
    asks += [
      Ask(tree.place[node], tasks[i], tree.spent + n)
      for n, node in enumerate(nodes)
    ]
  played = forks.play(asks)
  known = iter(zip(played, evaluate(played), strict=True))
  return {
    i: [trees[i].add(node, *next(known)) for node in nodes]
    for i, nodes in wanted.items()
  }
