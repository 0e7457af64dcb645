"""Selection over attempts: rules by hand, and subsets by brute force."""

import itertools
import math

import numpy as np
import pytest

from agentrl.stats import selection as lib
from tests import errors


def attempts(**columns) -> lib.Attempts:
  """[T, k] of the columns that are given; the others say nothing."""
  shape = np.shape(next(iter(columns.values())))
  plain = dict(
    solved=np.zeros(shape, bool),
    answer=np.zeros(shape, int),
    logp=np.full(shape, -1.0),
    **{name: np.ones(shape, int) for name in lib.Attempts._fields[3:]},
  )
  return lib.Attempts(**plain | {k: np.array(x) for k, x in columns.items()})


@pytest.mark.parametrize(
  ('rule', 'columns', 'want'),
  [
    ('random', dict(tokens=[3, 1, 2, 1]), [0.25, 0.25, 0.25, 0.25]),
    ('majority', dict(answer=[5, 7, 5, 9]), [0.5, 0, 0.5, 0]),
    # Tied answers share; an attempt without an answer abstains.
    ('majority', dict(answer=[5, 7, 5, 7]), [0.25, 0.25, 0.25, 0.25]),
    ('majority', dict(answer=[-1, -1, -1, 9]), [0, 0, 0, 1]),
    ('majority', dict(answer=[-1, -1, -1, -1]), [0.25] * 4),
    # Of a token: the sum prefers the first, the mean the second.
    (
      'likelihood',
      dict(logp=[-2.0, -3.0, -9.0, -9.0], tokens=[2, 6, 2, 2]),
      [0, 1, 0, 0],
    ),
    ('fewest_tokens', dict(tokens=[4, 2, 2, 9]), [0, 0.5, 0.5, 0]),
    # Most thoughts of all, but per action the fewest.
    (
      'least_overthinking',
      dict(thoughts=[8, 6, 5, 9], actions=[4, 2, 0, 3]),
      [1, 0, 0, 0],
    ),
    ('learned_reward', dict(learned=[0.5, 2.0, -1.0, 2.0]), [0, 0.5, 0, 0.5]),
    ('oracle', dict(solved=[False, True, False, True]), [0, 0.5, 0, 0.5]),
    ('oracle', dict(solved=[False] * 4), [0.25] * 4),
  ],
)
def test_a_rule_returns_what_it_prefers(rule, columns, want):
  x = attempts(**columns)
  np.testing.assert_allclose(lib.weights(rule, x), want)
  assert lib.tells(rule, attempts(**{k: [v] for k, v in columns.items()})) == (
    len(set(want)) > 1
  )


def _random(tasks=6, k=5) -> lib.Attempts:
  g = np.random.default_rng(0)
  draw = lambda n: g.integers(0, n, (tasks, k))  # noqa: E731
  return lib.Attempts(
    solved=draw(3) == 0,
    answer=draw(4) - 1,
    logp=-g.exponential(size=(tasks, k)),
    tokens=draw(6) + 1,
    thoughts=draw(9),
    calls=draw(3) + 1,
    actions=draw(3),
    outcome=g.random((tasks, k)),
    learned=draw(4),
  )


def _solves(rule, x, t, some) -> float:
  """Expected success on task t with the attempts `some`, one by one."""
  count = lambda i: sum(x.answer[t, i] == x.answer[t, j] for j in some)  # noqa: E731
  voted = [i for i in some if x.answer[t, i] >= 0] or list(some)
  score = {
    'random': lambda i: 0,
    'majority': lambda i: -count(i) if i in voted else 1,
    'likelihood': lambda i: -x.logp[t, i] / x.tokens[t, i],
    'fewest_tokens': lambda i: x.tokens[t, i],
    'least_overthinking': lambda i: x.thoughts[t, i] / max(x.actions[t, i], 1),
    'learned_reward': lambda i: -x.learned[t, i],
    'oracle': lambda i: 1 - x.solved[t, i],
  }[rule]
  least = min(map(score, some))
  best = [i for i in some if score(i) == least]
  return sum(x.solved[t, i] for i in best) / len(best)


@pytest.mark.parametrize('rule', lib.RULES)
@pytest.mark.parametrize('n', [1, 3, 5])
def test_a_point_is_the_mean_over_all_subsets(rule, n):
  x = _random()
  made, success = lib.point(rule, x, n)
  subsets = list(itertools.combinations(range(5), n))
  want = [np.mean([_solves(rule, x, t, s) for s in subsets]) for t in range(6)]
  np.testing.assert_allclose(success, want)
  assert made.success == pytest.approx(np.mean(want))
  assert made.calls == pytest.approx(n * x.calls.mean())
  assert made.tokens == pytest.approx(n * x.tokens.mean())
  if n == 1 or rule == 'random':  # nothing is selected
    assert made.returned == pytest.approx(x.tokens.mean())
  assert 0 <= made.low <= made.success <= made.high <= 1


def test_the_oracle_is_pass_at_k():
  x = _random(tasks=9)
  for n in (1, 2, 4):
    none = [math.comb(5 - c, n) / math.comb(5, n) for c in x.solved.sum(axis=1)]
    success = lib.point('oracle', x, n)[0].success
    assert success == pytest.approx(1 - np.mean(none))


def test_the_share_of_pairs_in_which_the_failure_scores_higher():
  score = np.array([[3, 1, 2], [5, 5, 1], [0, 9, 9]])
  solved = np.array([[0, 1, 0], [1, 0, 1], [0, 0, 0]], bool)
  # 3 > 1, 2 > 1; 5 = 5, 5 > 1; the last task has no success.
  assert lib.concordance(score, solved) == pytest.approx(3.5 / 4)
  low, high = lib.concordance_interval(score, solved)
  assert low == pytest.approx(0.75)
  assert high == pytest.approx(1.0)
  assert np.isnan(lib.concordance(score[2:], solved[2:]))
  assert np.isnan(lib.concordance_interval(score[1:], solved[1:])).all()


def test_tasks_that_agree_have_an_interval():
  made, _ = lib.point('random', attempts(solved=np.ones((8, 2), bool)), 1)
  assert (made.success, made.high) == (1.0, 1.0)
  assert 0.5 < made.low < 1


@pytest.mark.parametrize('n', [0, 6])
def test_more_attempts_than_there_are(n):
  with errors.raises(ValueError, f'k=5 {n}'):
    lib.point('random', _random(), n)
