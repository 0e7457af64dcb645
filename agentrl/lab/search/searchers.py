"""Searchers: which node of a tree the policy goes on from.

A searcher is a generator: it yields nodes, for each of which one message is
asked for, is sent the nodes that these led to, and returns the one it answers
with. Of several trees the calls are made together (run.py). It never yields
more than `tree.left` nodes.

  sample       one attempt, as a rollout makes it
  best_of_n    whole attempts; the best end is the answer
  beam         the best `width` nodes of each depth go on
  lookahead    of several next turns the best is taken, and nothing is undone
  mcts         UCT; where a node has no value it is played to its end
  swe_search   best-first by a score of many terms (swe_search.py)
"""

import functools
import inspect
import itertools
from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from agentrl import domain
from agentrl.lab.search import swe_search
from agentrl.lab.search.tree import ROOT, Tree
from agentrl.ops import tree_search

Search = Generator[list[int], list[int], int]
Searcher = Callable[[Tree], Search]


def sample(tree: Tree) -> Search:
  """Plays one attempt."""
  node = ROOT
  while tree.left and not tree.ended[node]:
    (node,) = yield [node]
  return node


def best_of_n(tree: Tree) -> Search:
  """Plays attempts until the budget is spent; returns the best end."""
  while tree.open:
    node = ROOT
    while tree.left and not tree.ended[node]:
      (node,) = yield [node]
  return tree.best()


def beam(tree: Tree, *, width: domain.Count = 4) -> Search:
  """Goes on from the best `width` nodes of each depth.

  The calls are divided equally among depths, and within one among the nodes.

  Args:
    width: nodes that are kept, at most half as many as a depth has calls
  """
  each = max(1, tree.left // tree.turns)
  width, nodes = min(width, max(1, each // 2)), [ROOT]
  while nodes and tree.open:
    asked = list(itertools.islice(itertools.cycle(nodes), each))
    found = yield asked[: tree.left]
    live = [x for x in dict.fromkeys(found) if not tree.ended[x]]
    nodes = sorted(live, key=tree.known, reverse=True)[:width]
  return tree.best()


def lookahead(tree: Tree) -> Search:
  """Samples several next turns and takes the best, one depth after another.

  Of equal ones it takes one that has not ended: more can come of it.
  """
  each, node = max(1, tree.left // tree.turns), ROOT
  while tree.open and not tree.ended[node]:
    found = yield [node] * min(each, tree.left)
    node = max(found, key=lambda x: (tree.known(x), not tree.ended[x]))
  return node


def mcts(
  tree: Tree,
  *,
  c: domain.NotNegative = 1.0,
  width: domain.Count = 4,
  extra: domain.NotNegative = 0.0,
) -> Search:
  """Runs Monte Carlo tree search with UCT, see ops.tree_search.uct.

  From the root down to a node with fewer than `width` calls spent on it, by
  Q + c √(ln N / (n + extra)); there one message is asked for. The value of what
  it leads to is backed up; where that is unknown the policy plays on to an end,
  whose value is. Nodes below which all ended are left alone, and the width
  doubles when these are all.

  Args:
    c: weight of what is visited little
    width: calls that a node gets before its children do
    extra: 1 for Agent Q's rule
  """
  while tree.open:
    while tree.closed(ROOT, width):
      width *= 2
    node = _selected(tree, c, width, extra)
    (node,) = yield [node]
    while tree.value[node] is None and not tree.ended[node] and tree.left:
      (node,) = yield [node]
    tree.back_up(node, tree.value[node] or 0.0)
  return tree.best()


def _selected(tree: Tree, c: float, width: int, extra: float) -> int:
  """Descends by UCT to a node that may get another call."""
  node = ROOT
  while tree.tries[node] >= width:
    live = [x for x in tree.children[node] if not tree.closed(x, width)]
    visits, total = tree.visits[live], tree.visits[node]
    score = tree_search.uct(tree.mean(live), visits, total, c=c, extra=extra)
    node = live[int(np.argmax(score))]
  return node


SEARCHERS: dict[str, Callable[..., Search]] = {
  f.__name__: f for f in (sample, best_of_n, beam, lookahead, mcts)
} | {'swe_search': swe_search.swe_search}
GUIDED = ('beam', 'lookahead', 'swe_search')  # need values before the end


def bind(name: str, **settings: Any) -> Searcher:
  """Binds a searcher to the settings that it takes.

  Raises:
    ValueError: there is no such searcher.
  """
  domain.OneOf(*SEARCHERS).check('searcher', name)
  f = SEARCHERS[name]
  has = inspect.signature(f).parameters
  return functools.partial(f, **{k: x for k, x in settings.items() if k in has})
