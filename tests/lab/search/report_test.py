"""The table of searchers."""

import numpy as np

from agentrl.lab.search import report, run, searchers
from agentrl.rollout.forks import COUNTS
from tests.lab.search.written import WrittenForks


def searched(name, calls=12):
  forks = WrittenForks(actions=2, depth=3)
  return run.search(
    forks, range(6), searchers.bind(name), run.truth, calls=calls, turns=3
  )


def cells(text, name):
  (line,) = [x for x in text.splitlines() if x.startswith(f'| {name} |')]
  return [x.strip() for x in line.split('|')[1:-1]]


def test_a_line_says_what_a_searcher_found_and_took():
  found = {x: searched(x) for x in ('best_of_n', 'lookahead')}
  text = report.table(found)
  row = cells(text, 'lookahead')
  solved = found['lookahead'].solved
  assert row[1].startswith(f'{np.mean(solved):.1%} [')
  gap = 100 * (np.mean(solved) - np.mean(found['best_of_n'].solved))
  assert row[2].startswith(f'{gap:+.1f}')
  assert cells(text, 'best_of_n')[2] == ''
  calls = sum(tree.spent for tree in found['lookahead'].trees) / 6
  assert row[4 + COUNTS.index('calls')] == f'{calls:.1f}'


def test_leaves_are_what_nothing_goes_on_from():
  tree = searched('mcts').trees[0]
  inner = set(tree.parent[: len(tree)])
  assert report.leaves(tree) == [
    x for x in range(1, len(tree)) if x not in inner
  ]
