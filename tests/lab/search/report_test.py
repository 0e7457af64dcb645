"""The table of searchers."""

import numpy as np
import pytest

from agentrl.lab.search import report, run, searchers
from agentrl.lab.search.tree import Tree
from agentrl.rollout.forks import COUNTS, Played
from agentrl.stats import intervals
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
  assert row[7 + COUNTS.index('calls')] == f'{calls:.1f}'


def test_differences_are_from_a_sample_where_there_is_no_best_of_n():
  found = {x: searched(x) for x in ('sample', 'lookahead', 'best_of_n')}
  for names, rival in (
    (('sample', 'lookahead'), 'sample'),
    (found, 'best_of_n'),
  ):
    text = report.table({name: found[name] for name in names})
    assert cells(text, 'searcher')[2] == f'more than {rival}'
    assert cells(text, rival)[2] == ''
    gap = found['lookahead'].solved.mean() - found[rival].solved.mean()
    assert cells(text, 'lookahead')[2].startswith(f'{100 * gap:+.1f} [')


def attempt(bad):
  """A tree whose answer is four turns, of which the first `bad` are malformed.

  Beside each of them a malformed message was sampled.
  """
  tree, node = Tree(0, calls=8, turns=4), 0
  for i in range(4):
    last = node
    for parsed in (None, None if i < bad else 'up'):
      said = (len(tree),)
      x = Played(0, said, 0.0, 0.0, i == 3, 0.0, b'', parsed=parsed)
      node = tree.add(last, x, None)
  return tree, node


def test_malformed_turns_are_those_of_the_answers():
  """Not those of what was sampled beside them."""
  trees, answers = zip(*map(attempt, (1, 0, 3)), strict=True)
  found = run.Searched([*trees], [*answers], dict.fromkeys(COUNTS, 0))
  bad, task = found.malformed
  assert [bad[task == t].tolist().count(True) for t in range(3)] == [1, 0, 3]
  low, high = intervals.clustered(bad, task)
  cell = cells(report.table({'vote': found}), 'vote')[3]
  assert cell == f'{4 / 12:.1%} [{low:.1%}, {high:.1%}]'


def test_leaves_are_what_nothing_goes_on_from():
  tree = searched('mcts').trees[0]
  inner = set(tree.parent[: len(tree)])
  assert report.leaves(tree) == [
    x for x in range(1, len(tree)) if x not in inner
  ]


def tree_of(ends, values):
  """Two first turns, and ends (first turn, score) with these values."""
  made = Tree(0, calls=20, turns=2)
  firsts = [made.add(0, played(i, False, 0.0), 0.5) for i in range(2)]
  for n, ((first, score), value) in enumerate(zip(ends, values, strict=True)):
    made.add(firsts[first], played(n, True, score), value)
  return made


def played(message, ended, score):
  return Played(
    place=0,
    message=(message,),
    logp=0.0,
    reward=0.0,
    ended=ended,
    score=score,
    state=b'',
  )


def test_pairs_are_of_a_success_and_a_failure_at_one_task():
  ends = [(0, 1.0), (0, 0.0), (1, 0.0), (1, 0.0), (1, 1.0)]
  tree = tree_of(ends, [0.6, 0.7, 0.1, 0.6, 0.4])
  # 0.6 > 0.7 .1 =.6; 0.4 > 0.7 .1 .6
  assert report.right_pairs(tree) == pytest.approx(
    (0 + 1 + 0.5 + 0 + 1 + 0) / 6
  )
  assert report.right_pairs(tree, shared=True) == pytest.approx((0 + 1 + 0) / 3)
  assert report.right_pairs(tree_of(ends[1:4], [0.7, 0.1, 0.6])) is None
  unknown = tree_of(ends[:2], [0.6, None])
  assert report.right_pairs(unknown) is None


def test_several_evaluators_are_held_against_the_first():
  by = {f'best_of_n by {x}': searched('best_of_n') for x in ('truth', 'luck')}
  text = report.table(by)
  assert 'more than best_of_n by truth' in text
  assert cells(text, 'best_of_n by truth')[2] == ''
  assert cells(text, 'best_of_n by luck')[2].startswith('+0.0')
