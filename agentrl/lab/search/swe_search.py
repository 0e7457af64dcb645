"""SWE-Search: best-first selection by a score of many terms, and a verdict.

Antoniades et al., "SWE-Search: Enhancing Software Agents with Monte Carlo Tree
Search and Iterative Refinement", arXiv 2410.20285. Of every node that may get a
call, wherever it stands, the one with the highest

  w_e V + w_x √(ln N_parent / N) − w_d √depth
    + leaf bonus                V ≥ high and no child yet
    + recovery bonus            V ≥ high and its only child has less than low
    − child penalty             for each child with V ≥ very high
    − duplicate penalty         for each call that found nothing new

goes on; V in [−100, 100] is 200 v − 100 of a value in [0, 1], backed up as a
mean. Ended trajectories become candidates, and the search goes on until there
are enough of them: a verdict chooses among the best few.

The paper's V comes from a language model that also explains itself, its bonus
for diversity from how alike texts are, and its verdict from a debate of models.
Here values are the evaluator's, nothing is explained, there is no bonus for
diversity, and the verdict is the evaluator's word on each candidate.
"""

import math
from collections.abc import Generator
from typing import NamedTuple

from agentrl import domain
from agentrl.lab.search.tree import ROOT, Tree


class Terms(NamedTuple):
  """Weights of the score, in units of V."""

  exploit: float = 1.0
  explore: float = 1.0
  depth: float = 0.8
  high: float = 50.0
  very_high: float = 75.0
  low: float = 0.0
  leaf: float = 50.0
  recovery: float = 5.0  # times V − V of the child
  child: float = 5.0
  duplicate: float = 25.0


TERMS = Terms()


def swe_search(
  tree: Tree,
  *,
  width: domain.Count = 4,
  candidates: domain.Count = 5,
  terms: Terms = TERMS,
) -> Generator[list[int], list[int], int]:
  """Asks where the score is highest, until a verdict can be given.

  Args:
    width: calls that a node gets at most; doubles when all have had them
    candidates: ended trajectories that the verdict is about
    terms: weights of the score
  """
  while tree.open:
    live = []
    while not live:
      live = [
        i
        for i in range(len(tree))
        if not tree.ended[i] and tree.tries[i] < width
      ]
      width *= 1 if live else 2
    node = max(live, key=lambda i: score(tree, i, terms))
    (found,) = yield [node]
    tree.back_up(found, tree.value[found] or 0.0)
  return verdict(tree, candidates)


def score(tree: Tree, node: int, terms: Terms) -> float:
  """Returns what speaks for going on from a node."""
  if node == ROOT and not tree.children[node]:
    return math.inf
  value = _scaled(float(tree.mean([node])[0]))
  own = [_scaled(tree.known(x)) for x in tree.children[node]]
  parent = tree.parent[node] if node != ROOT else ROOT
  visits = max(tree.visits[node], 1)
  rare = math.sqrt(math.log(max(tree.visits[parent], 1)) / visits)
  out = terms.exploit * value + terms.explore * rare
  out -= terms.depth * math.sqrt(tree.depth[node])
  if value >= terms.high and not own:
    out += terms.leaf
  if value >= terms.high and len(own) == 1 and own[0] < terms.low:
    out += terms.recovery * (value - own[0])
  out -= terms.child * sum(x >= terms.very_high for x in own)
  return out - terms.duplicate * (tree.tries[node] - len(own))


def verdict(tree: Tree, candidates: int) -> int:
  """Chooses among the ended trajectories whose means are highest."""
  ends = [i for i in range(len(tree)) if tree.ended[i]]
  if not ends:
    return tree.best()
  means = tree.mean(ends)
  ranked = sorted(range(len(ends)), key=lambda i: -means[i])[:candidates]
  return max((ends[i] for i in ranked), key=tree.known)


def _scaled(value: float) -> float:
  return 200 * max(value, 0.0) - 100
