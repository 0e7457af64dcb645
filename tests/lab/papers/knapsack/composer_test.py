"""The online knapsack: its bound in all orders, the optimum by brute force."""

import itertools

import numpy as np
import pytest

from agentrl.lab.papers.knapsack import composer as lib

BOUNDS = lib.Bounds(0.1, 2.0)


def single(density, cost) -> lib.Inventory:
  n = len(density)
  density, cost = np.array(density), np.array(cost)
  return lib.Inventory(np.arange(n), density * cost, cost, np.zeros(n))


def ratio(x, budget, bounds) -> float:
  best = lib.worth(lib.offline(x, x.success, budget), x)
  have = lib.worth(lib.online(x, x.success, budget, bounds), x)
  return best / have


def test_the_threshold_rises_from_below_the_least_to_the_most():
  accepts_all = 1 / (1 + np.log(BOUNDS.high / BOUNDS.low))
  assert lib.threshold(0, BOUNDS) == pytest.approx(BOUNDS.low / np.e)
  assert lib.threshold(accepts_all, BOUNDS) == pytest.approx(BOUNDS.low)
  assert lib.threshold(1, BOUNDS) == pytest.approx(BOUNDS.high)


@pytest.mark.parametrize('steps', [40, 200])
def test_rising_offers_reach_the_bound_and_no_more(steps):
  """The worst order: every level of value is offered until it is enough."""
  budget = 100
  levels = np.geomspace(*BOUNDS, steps)
  worst, density = 0.0, []
  for level in levels:
    density += [level] * budget
    if level in levels[:: steps // 10]:
      x = single(density, np.ones(len(density), int))
      have = lib.worth(lib.online(x, x.success, budget, BOUNDS), x)
      worst = max(worst, level * budget / have)
  limit = lib.ratio_bound(BOUNDS)
  assert worst <= lib.ratio_bound(BOUNDS, 1 / budget)
  assert worst > 0.8 * limit  # a bound that is far away says little
  # What buys at once has the lowest level alone.
  assert ratio(x, budget, None) > 2 * limit


@pytest.mark.parametrize('order', ['random', 'rising', 'falling'])
@pytest.mark.parametrize('largest', [1, 4, 9])
def test_the_optimum_is_within_the_bound(order, largest):
  for seed in range(30):
    rng = np.random.default_rng(seed)
    density = np.exp(rng.uniform(*np.log(BOUNDS), 80))
    if order != 'random':
      density = np.sort(density)[:: 1 if order == 'rising' else -1]
    x = single(density, rng.integers(1, largest + 1, 80))
    budget = 40
    assert ratio(x, budget, BOUNDS) <= lib.ratio_bound(BOUNDS, largest / budget)


def test_the_optimum_is_that_of_all_sets():
  for seed in range(20):
    rng = np.random.default_rng(seed)
    n = 9
    x = lib.Inventory(
      rng.integers(0, 4, n), rng.random(n), rng.integers(1, 6, n), np.zeros(n)
    )
    value = rng.random(n)  # estimates: what is bought is the best by them
    sets = [np.array(s, bool) for s in itertools.product((0, 1), repeat=n)]
    fit = [s for s in sets if x.cost[s].sum() <= 8]
    by = x._replace(success=value)
    want = max(lib.worth(s, by) for s in fit)
    got = lib.offline(x, value, 8)
    assert x.cost[got].sum() <= 8
    assert lib.worth(got, by) == pytest.approx(want)


def test_a_rival_is_bought_for_what_it_adds():
  x = lib.Inventory(
    skill=np.array([0, 0, 0, 1]),
    success=np.array([0.5, 0.55, 0.9, 0.4]),
    cost=np.array([1, 1, 1, 1]),
    described=np.zeros(4),
  )
  bounds = lib.Bounds(0.2, 1.0)  # 0.05 more is not worth a cost of 1
  got = lib.online(x, x.success, 4, bounds)
  assert got.tolist() == [True, False, True, True]
  assert lib.worth(got, x) == pytest.approx(1.3)
  assert lib.online(x, x.success, 4, None).all()
  assert lib.online(x, x.success, 2, None).tolist() == [1, 1, 0, 0]


def test_retrieval_reads_descriptions_alone():
  x = lib.Inventory(
    skill=np.array([0, 0, 1, 2]),
    success=np.array([0.1, 0.9, 0.5, 0.5]),
    cost=np.array([3, 1, 4, 2]),
    described=np.array([0.9, 0.2, 0.8, 0.7]),
  )
  assert lib.retrieval(x, 5).tolist() == [True, False, False, True]
  assert lib.retrieval(x, 9).tolist() == [True, False, True, True]


def test_probes_estimate_successes():
  n = 4000
  x = lib.Inventory(
    np.zeros(n, int), np.full(n, 0.7), np.ones(n, int), np.zeros(n)
  )
  few, many = (lib.probe(x, k, np.random.default_rng(0)) for k in (3, 300))
  assert set(np.round(few * 8).astype(int)) == {1, 3, 5, 7}  # (wins + ½) / 4
  assert many.mean() == pytest.approx(0.7, abs=0.005)
  assert many.std() < few.std() / 5
