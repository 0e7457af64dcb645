"""Searchers against all ends of complete trees."""

import numpy as np
import pytest

from agentrl.lab.search import run, searchers, swe_search
from agentrl.lab.search.tree import Tree
from agentrl.ops import tree_search
from agentrl.rollout.forks import Played
from tests import errors
from tests.lab.search.written import WrittenForks

ACTIONS, DEPTH = 3, 3
NODES = sum(ACTIONS**d for d in range(1, DEPTH + 1))  # 39


def searched(name, calls, evaluate=run.truth, tasks=4, **settings):
  forks = WrittenForks(actions=ACTIONS, depth=DEPTH)
  searcher = searchers.bind(name, **{'width': ACTIONS, **settings})
  found = run.search(
    forks, range(tasks), searcher, evaluate, calls=calls, turns=DEPTH
  )
  return forks, found


def answers(found):
  return np.array(
    [t.score[n] for t, n in zip(found.trees, found.answers, strict=True)]
  )


def optima(forks):
  return np.array([max(x.values()) for x in forks.scores])


@pytest.mark.parametrize('evaluate', [run.truth, run.outcome])
def test_mcts_with_the_calls_of_the_whole_tree_is_exhaustive(evaluate):
  forks, found = searched('mcts', 3 * NODES, evaluate, c=0.5)
  np.testing.assert_array_equal(answers(found), optima(forks))
  for i, tree in enumerate(found.trees):
    ends = [tree.score[x] for x in range(len(tree)) if tree.ended[x]]
    assert sorted(ends) == sorted(forks.scores[i].values())


def test_values_are_means_over_what_was_visited():
  """Of a whole tree, once each: those of an enumeration."""
  forks, found = searched('mcts', NODES, run.outcome, width=ACTIONS)
  for i, tree in enumerate(found.trees):
    nodes = range(len(tree))
    assert len(tree) == NODES + 1
    ended = np.array(tree.ended)
    score = np.where(ended, tree.score, 0.0)
    sums = tree_search.subtree_sums(tree.parent, score)
    count = tree_search.subtree_sums(tree.parent, ended.astype(float))
    np.testing.assert_allclose(tree.mean(nodes), sums / count, rtol=1e-12)
    want = np.mean(list(forks.scores[i].values()))
    assert tree.mean([0])[0] == pytest.approx(want)


def test_a_true_value_finds_the_best_end_with_few_calls():
  """Straight down: A calls at each depth."""
  _, blind = searched('best_of_n', ACTIONS * DEPTH, tasks=8)
  for name in ('beam', 'lookahead'):
    forks, found = searched(name, ACTIONS * DEPTH, tasks=8)
    np.testing.assert_array_equal(answers(found), optima(forks))
    assert np.mean(answers(found)) > np.mean(answers(blind)) + 0.1
  _, found = searched('swe_search', ACTIONS * DEPTH, tasks=8)
  assert np.mean(answers(found)) > np.mean(answers(blind))


def test_mcts_spends_more_where_more_is_found():
  forks = WrittenForks(actions=3, depth=5)
  searcher = searchers.bind('mcts', c=0.1, width=3)
  found = run.search(forks, range(8), searcher, run.outcome, calls=200, turns=5)
  most = []
  for tree in found.trees:
    first = tree.children[0]
    most.append(np.argmax(tree.visits[first]) == np.argmax(tree.mean(first)))
  assert np.mean(most) >= 0.75


def test_exploration_visits_all_alike():
  _, found = searched('mcts', 24, c=1e4)
  for tree in found.trees:
    visits = tree.visits[tree.children[0]]
    assert max(visits) - min(visits) <= 1


@pytest.mark.parametrize('name', list(searchers.SEARCHERS))
@pytest.mark.parametrize('calls', [1, 2, 7, 40])
def test_no_searcher_asks_for_more_than_its_budget(name, calls):
  _, found = searched(name, calls)
  for tree, node in zip(found.trees, found.answers, strict=True):
    assert tree.spent <= calls
    assert 0 <= node < len(tree)
  assert found.counts['calls'] == sum(tree.spent for tree in found.trees)


def test_best_of_n_plays_whole_attempts():
  _, found = searched('best_of_n', 4 * DEPTH, run.outcome, tasks=1)
  (tree,) = found.trees
  assert tree.spent == 4 * DEPTH
  seen = [tree.score[x] for x in range(len(tree)) if tree.ended[x]]
  assert answers(found)[0] == max(seen)


def test_sampling_is_one_attempt():
  _, found = searched('sample', 100)
  assert [tree.spent for tree in found.trees] == [DEPTH] * 4


def test_a_success_ends_a_search():
  forks = WrittenForks(actions=2, depth=2)
  always = lambda played: [1.0 for x in played]  # noqa: E731
  for name in ('best_of_n', 'mcts', 'swe_search'):
    found = run.search(
      forks, [0], searchers.bind(name), always, calls=50, turns=2
    )
    assert found.trees[0].spent < 8, name


def test_lookahead_goes_on_where_an_end_is_worth_no_more():
  tree = Tree(0, calls=8, turns=2)
  search = searchers.lookahead(tree)
  assert next(search) == [0] * 4
  found = [node(tree, 0, 0.0, ended=i < 3, message=i) for i in range(4)]
  assert search.send(found) == [found[3]] * 4


def test_lookahead_takes_an_end_that_nothing_can_be_better_than():
  tree = Tree(0, calls=8, turns=2)
  search = searchers.lookahead(tree)
  next(search)
  found = [node(tree, 0, 1.0, ended=i == 2, message=i) for i in range(4)]
  with pytest.raises(StopIteration) as end:
    search.send(found)
  assert end.value.value == found[2]


def node(tree, parent, value, ended=False, message=0, parsed=''):
  x = Played(0, (message,), 0.0, 0.0, ended, value, b'', parsed=parsed)
  return tree.add(parent, x, value)


def test_the_score_of_swe_search_is_its_equation():
  tree = Tree(0, calls=20, turns=5)
  a = node(tree, 0, 0.9, message=1)
  b = node(tree, 0, 0.2, message=2)
  tree.back_up(a, 0.9)
  tree.back_up(b, 0.2)
  rare = np.sqrt(np.log(2) / 1)
  own = swe_search.score(tree, a, swe_search.TERMS)
  assert own == pytest.approx(80 + rare - 0.8 + 50)
  own = swe_search.score(tree, b, swe_search.TERMS)
  assert own == pytest.approx(-60 + rare - 0.8)
  low = node(tree, a, 0.1, message=3)
  tree.back_up(low, 0.1)
  mean = 200 * 0.5 - 100
  rare = np.sqrt(np.log(3) / 2)
  own = swe_search.score(tree, a, swe_search.TERMS)
  assert own == pytest.approx(mean + rare - 0.8)
  node(tree, a, 0.1, message=3)  # the same again
  assert swe_search.score(tree, a, swe_search.TERMS) == pytest.approx(own - 25)


def test_a_good_node_whose_only_child_is_bad_gets_another():
  tree = Tree(0, calls=20, turns=5)
  a = node(tree, 0, 1.0)
  for _ in range(5):
    tree.back_up(a, 1.0)
  child = node(tree, a, 0.2)
  tree.back_up(child, 0.2)
  with_child = swe_search.score(tree, a, swe_search.TERMS)
  without = swe_search.score(tree, a, swe_search.TERMS._replace(recovery=0.0))
  value = 200 * (5.2 / 6) - 100
  assert with_child - without == pytest.approx(5 * (value + 60))


def test_the_verdict_is_about_the_best_few():
  tree = Tree(0, calls=20, turns=5)
  ends = [
    node(tree, 0, v, ended=True, message=i)
    for i, v in enumerate((0.2, 0.9, 0.4))
  ]
  for end, backed in zip(ends, (0.8, 0.1, 0.7), strict=True):
    tree.back_up(end, backed)
  assert swe_search.verdict(tree, 2) == ends[2]
  assert swe_search.verdict(tree, 3) == ends[1]


def test_unknown_searchers_are_refused():
  with errors.raises(ValueError, 'searcher mtcs'):
    searchers.bind('mtcs')


def test_a_searcher_that_asks_for_too_much_is_stopped():
  def greedy(tree):
    yield [0] * (tree.left + 1)

  forks = WrittenForks(actions=2, depth=2)
  with errors.raises(ValueError, 'searcher 3 4'):
    run.search(forks, [0], greedy, run.truth, calls=3, turns=2)


@pytest.mark.parametrize(
  ('said', 'winner'),
  [
    (['up', 'down', 'down', 'left'], 1),
    (['down', 'up', 'up', 'down'], 0),  # a tie: the first
    (['left', 'up', 'down'], 0),
    ([None, None, None, 'up'], 3),
    ([None, 'up', None, 'down', 'down'], 3),
    ([None, None], 0),
  ],
)
def test_most_samples_win_and_malformed_ones_only_alone(said, winner):
  """Though every message and the place that it leads to differ."""
  tree = Tree(0, calls=len(said), turns=2)
  found = [node(tree, 0, 0.0, message=i, parsed=x) for i, x in enumerate(said)]
  assert len(set(found)) == len(said)
  assert searchers.majority(tree, found) == found[winner]


def test_samples_that_lead_to_one_place_are_counted_each():
  tree = Tree(0, calls=3, turns=2)
  say = lambda x: node(tree, 0, 0.0, message=ord(x), parsed=x)  # noqa: E731
  found = [say('a'), say('b'), say('b')]
  assert found[1] == found[2] == searchers.majority(tree, found)


def spoken(name, calls, samples, malformed=(), **settings):
  """What a searcher plays where each place has the same samples in turn."""
  forks = WrittenForks(
    actions=3, depth=DEPTH, samples=samples, malformed=malformed
  )
  found = run.search(
    forks,
    [0],
    searchers.bind(name, **settings),
    run.outcome,
    calls=calls,
    turns=DEPTH,
  )
  (tree,), (answer,) = found.trees, found.answers
  return tree, [tree.parsed[x] for x in tree.path(answer)[1:]]


def test_a_vote_changes_what_is_played():
  samples, malformed = (2, 0, 1, 1), (2,)
  for calls, width, want in ((99, 4, '1'), (99, 2, '0'), (4 * DEPTH, 9, '1')):
    tree, said = spoken('vote', calls, samples, malformed, width=width)
    assert said == [want] * DEPTH
    assert tree.spent == min(width, 4) * DEPTH
  _, said = spoken('sample', 99, samples, malformed)
  assert said == [None] * DEPTH


def test_a_vote_of_one_is_a_sample():
  alone, want = searched('sample', 40)
  for calls, width in ((40, 1), (DEPTH, 4), (DEPTH - 1, 4)):
    if calls < DEPTH:
      alone, want = searched('sample', calls)
    forks, found = searched('vote', calls, width=width)
    assert found.answers == want.answers
    assert forks.counts == alone.counts
    assert forks.places == alone.places


@pytest.mark.parametrize(
  ('calls', 'width', 'tries'), [(7, 3, [2, 2, 3]), (5, 4, [1, 2, 2])]
)
def test_a_vote_keeps_calls_for_the_turns_that_are_left(calls, width, tries):
  _, found = searched('vote', calls, width=width)
  for tree, answer in zip(found.trees, found.answers, strict=True):
    assert [tree.tries[x] for x in tree.path(answer)[:-1]] == tries
    assert tree.ended[answer]


def test_a_vote_reads_no_value():
  wrong = lambda played: [None for x in played]  # noqa: E731
  for name in ('vote', 'vote_paths'):
    _, want = searched(name, 20, run.truth)
    _, found = searched(name, 20, wrong)
    assert found.answers == want.answers
    assert name not in searchers.GUIDED


@pytest.mark.parametrize(
  ('attempts', 'winner'),
  [
    (['ab', 'cd', 'cd'], 1),
    (['ab', 'cd'], 0),
    (['ab', 'ac', 'bb', 'ac'], 1),
    (['a?', 'a?', 'cd'], 2),
    (['a?', 'bc', 'cd', 'cd', '??'], 2),
    (['a?', '?b', '?b'], 1),
    (['a?', 'a?', 'b'], 0),  # the budget cuts the last
    (['a'], 0),
  ],
)
def test_the_most_frequent_attempt_wins(attempts, winner):
  """Turns of an attempt are letters, ? a malformed one."""
  tree = Tree(0, calls=len(''.join(attempts)), turns=2)
  search, found = searchers.vote_paths(tree), None
  for x in ''.join(attempts):
    (at,) = next(search) if found is None else search.send(found)
    ended, parsed = tree.depth[at] == 1, None if x == '?' else x
    found = [node(tree, at, None, ended, message=ord(x), parsed=parsed)]
  with pytest.raises(StopIteration) as end:
    search.send(found)
  way = tree.path(end.value.value)[1:]
  assert ''.join(tree.parsed[x] or '?' for x in way) == attempts[winner]
