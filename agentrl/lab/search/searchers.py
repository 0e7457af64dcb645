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
  vote         of several next messages the most frequent; needs no value
  vote_paths   whole attempts; the most frequent; needs no value
"""

import collections
import functools
import inspect
import itertools
from collections.abc import Callable, Generator, Sequence
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

  Of equal ones it takes one that has not ended, of which more can come, unless
  an end is worth 1.
  """
  each, node = max(1, tree.left // tree.turns), ROOT
  while tree.open and not tree.ended[node]:
    found = yield [node] * min(each, tree.left)
    node = max(
      found,
      key=lambda x: (tree.known(x), tree.ended[x] == (tree.known(x) >= 1)),
    )
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


def vote(tree: Tree, *, width: domain.Count = 4) -> Search:
  """Plays one attempt; each message is the most frequent of several samples.

  Self-consistency (Wang et al., 2203.11171) by turn: see `majority`. Values are
  not read. With `width` 1, or with no more calls than turns, it is `sample`.

  Args:
    width: messages sampled at a turn, at most; fewer where the calls that are
      left, divided equally among the turns that are left, are fewer
  """
  node = ROOT
  while tree.left and not tree.ended[node]:
    later = max(1, tree.turns - tree.depth[node])
    each = min(width, max(1, tree.left // later))
    found = yield [node] * each
    node = majority(tree, found)
  return node


def majority(tree: Tree, found: Sequence[int]) -> int:
  """Returns the node whose message is the most frequent among samples.

  Messages that act alike count together (Tree.parsed); of equal counts, and of
  the places that one message led to, the first. A malformed message never wins
  against one that was understood.

  Args:
    found: nodes that samples at one node led to, one for each sample
  """
  counts = collections.Counter(tree.parsed[x] for x in found)
  return max(
    found,
    key=lambda x: (tree.parsed[x] is not None, counts[tree.parsed[x]]),
  )


def vote_paths(tree: Tree) -> Search:
  """Plays attempts until the budget is spent; returns the most frequent.

  Attempts are alike if all of their messages act alike, turn by turn; of equal
  counts the first. One that the budget cuts off wins only where it is alone,
  and one with a malformed message only where all that ended have one. Values
  are not read.
  """
  ends: list[int] = []
  while tree.left:
    node = ROOT
    while tree.left and not tree.ended[node]:
      (node,) = yield [node]
    ends.append(node)
  said = {x: tuple(tree.parsed[i] for i in tree.path(x)) for x in ends}
  counts = collections.Counter(said[x] for x in ends)
  return max(
    ends, key=lambda x: (tree.ended[x], None not in said[x], counts[said[x]])
  )


SEARCHERS: dict[str, Callable[..., Search]] = {
  f.__name__: f
  for f in (sample, best_of_n, beam, lookahead, mcts, vote, vote_paths)
} | {'swe_search': swe_search.swe_search}
BLIND = ('sample', 'vote', 'vote_paths')  # read no values
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
