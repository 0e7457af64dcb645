"""Task pools: weights against formulas, draws against their law."""

import numpy as np
import pytest
from scipy import stats

from agentrl import registry
from agentrl.memory.task_statistics import TaskStatistics
from agentrl.task import fixed, pool
from agentrl.types import AttemptPlan

N = 8
PLAN = AttemptPlan(N, group=4, batch=12, limit=5, seed=3, temperature=0.7)
POOLS = (
  'difficulty_band',
  'learning_progress',
  'prioritized',
  'failures_first',
)


def statistics(**columns):
  """Of tasks that were never attempted, but for the columns given."""
  names = TaskStatistics.__dataclass_fields__
  empty = {name: np.zeros(N) for name in names}
  empty |= {'last': np.full(N, -1)}
  return TaskStatistics(
    **{k: np.array(columns.get(k, x)) for k, x in empty.items()}
  )


def choose(name, x, step=0, plan=PLAN, **hp):
  piece = registry.bind('task', name, hp)
  return piece(plan, {'task_statistics': x}, step)


def share(name, x, draws=3000, **hp):
  """How often each task is the first to be drawn."""
  count = np.zeros(N)
  for step in range(draws):
    count[choose(name, x, step, **hp).task[0]] += 1
  return count / draws


def near(got, want, draws=3000):
  error = 5 * np.sqrt(np.maximum(want * (1 - want), 1e-4) / draws)
  assert np.all(np.abs(got - want) < error), (got, want)


@pytest.mark.parametrize('name', POOLS)
def test_attempts_are_whole_groups_at_different_tasks(name):
  rng = np.random.default_rng(0)
  tried = rng.integers(0, 20, N)
  x = statistics(
    tried=tried,
    won=tried // 3,
    attempts=tried,
    last=np.where(tried, rng.integers(0, 9, N), -1),
    unsolved=tried % 2,
    fast=rng.random(N),
    slow=rng.random(N),
  )
  for step in range(12):
    a = choose(name, x, step)
    assert a.task.shape == (12,)
    np.testing.assert_array_equal(a.group, np.repeat(np.arange(3), 4))
    first = a.task[::4]
    np.testing.assert_array_equal(a.task, np.repeat(first, 4))
    assert len(set(first)) == 3
    assert set(a.limit) == {5}
    again = choose(name, x, step)
    np.testing.assert_array_equal(a.task, again.task)
  other = PLAN._replace(seed=4)
  assert any(
    choose(name, x, s).task.tolist() != choose(name, x, s, other).task.tolist()
    for s in range(12)
  )


@pytest.mark.parametrize('name', POOLS)
def test_a_step_may_want_more_tasks_than_there_are(name):
  plan = PLAN._replace(tasks=N, batch=4 * (N + 3))
  first = choose(name, statistics(), 0, plan).task[::4]
  assert set(first) == set(range(N))
  assert len(first) == N + 3


def test_the_band_is_the_posterior_between_its_ends():
  tried = np.array([0, 4, 4, 4, 40, 40, 2.5, 8])
  won = np.array([0, 0, 2, 4, 20, 39, 1.25, 1])
  weight = np.array(
    [
      stats.beta(1 + w, 1 + t - w).cdf(0.7)
      - stats.beta(1 + w, 1 + t - w).cdf(0.1)
      for t, w in zip(tried, won, strict=True)
    ]
  )
  x = statistics(tried=tried, won=won, last=np.zeros(N))
  got = share('difficulty_band', x, low=0.1, high=0.7)
  near(got, weight / weight.sum())
  assert weight[4] > 0.99
  assert weight[5] < 0.01


def test_progress_is_the_distance_of_the_averages():
  fast = np.array([0, 0.5, 1, 0.2, 0.9, 0.3, 0, 0])
  slow = np.array([0, 0.5, 0.4, 0.6, 0.9, 0.3, 0, 0])
  last = np.array([3, 3, 3, 3, 3, 3, 3, -1])
  change = np.array([0, 0, 0.6, 0.4, 0, 0, 0, 0.6])  # the new one as the best
  want = 0.75 * change / change.sum() + 0.25 / N
  x = statistics(fast=fast, slow=slow, last=last)
  near(share('learning_progress', x, explore=0.25), want)
  level = statistics(fast=slow, slow=slow, last=np.zeros(N))
  near(share('learning_progress', level), np.full(N, 1 / N))


def test_priorities_are_ranks_and_waits():
  tried = np.array([8, 8, 8, 8, 8, 8, 8, 0])
  won = np.array([4, 3, 5, 0, 8, 1, 4, 0])
  last = np.array([5, 5, 5, 1, 5, 5, 3, -1])
  rank = np.array([2, 4, 4, 7, 7, 6, 2, 1])
  wait = np.array([0, 0, 0, 4, 0, 0, 2, 5])
  by_rank = rank ** (-1 / 0.5)
  want = 0.6 * by_rank / by_rank.sum() + 0.4 * wait / wait.sum()
  x = statistics(tried=tried, won=won, last=last)
  near(share('prioritized', x, temperature=0.5, staleness=0.4), want)
  few = choose('prioritized', x, temperature=1e-3, staleness=0.0)
  assert few.task[0] == 7


def test_failures_come_first_oldest_first_and_not_for_ever():
  x = statistics(
    unsolved=np.array([1, 0, 2, 3, 1, 0, 0, 0]),
    last=np.array([6, 7, 4, 2, 5, 1, 1, -1]),
  )
  hp = dict(every=4, tries=3)
  for step in (0, 1, 2, 4):
    np.testing.assert_array_equal(
      choose('failures_first', x, step, **hp).task,
      fixed.fixed(PLAN, {}, step).task,
    )
  assert choose('failures_first', x, 3, **hp).task[::4].tolist() == [2, 4, 0]
  endless = choose('failures_first', x, 3, every=4, tries=0)
  assert endless.task[::4].tolist() == [3, 2, 4]
  order = fixed.fixed(PLAN, {}, 3).task[::4].tolist()
  part = choose('failures_first', x, 3, every=4, share=1 / 3).task[::4].tolist()
  assert part == [3, *[i for i in order if i != 3]][:3]
  nobody = choose('failures_first', statistics(), 3, every=4)
  assert nobody.task[::4].tolist() == order


def test_a_budget_holds_as_long_as_other_tasks_are_left():
  attempts = np.array([0, 4, 8, 12, 9, 5, 13, 2])
  x = statistics(attempts=attempts, tried=attempts, last=np.zeros(N))
  for name in ('difficulty_band', 'learning_progress', 'prioritized'):
    for step in range(20):
      chosen = choose(name, x, step, budget=12).task
      assert np.all(attempts[chosen] + 4 <= 12)
    first = choose(name, x, 0, PLAN._replace(batch=24), budget=6).task[::4]
    assert set(first[:2]) == {0, 7}  # the others only since a step needs six


def test_draws_are_gumbels_law_without_replacement():
  """Ordered pairs: w_i / Σw, then w_j / (Σw − w_i)."""
  w, draws = np.array([1.0, 3.0, 0.0, 6.0]), 6000
  pairs = np.zeros((4, 4))
  for step in range(draws):
    i, j = pool.draw(w, 2, seed=1, step=step)
    pairs[i, j] += 1 / draws
  with np.errstate(invalid='ignore'):
    want = (w[:, None] / w.sum()) * (w[None] / (w.sum() - w[:, None]))
  np.fill_diagonal(want, 0)
  near(pairs, want, draws)


def test_what_has_no_weight_comes_last_and_in_any_order():
  w = np.array([0.0, 2.0, 0.0, 0.0])
  tails = {tuple(pool.draw(w, 4, 0, step)) for step in range(200)}
  assert {x[0] for x in tails} == {1}
  assert len(tails) == 6
  assert pool.draw(w, 6, 0, 5).tolist()[4:] == pool.draw(w, 2, 0, 5).tolist()
