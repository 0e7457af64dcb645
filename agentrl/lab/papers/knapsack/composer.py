"""Online knapsack: components of an agent bought one by one within a budget.

Components arrive in an arbitrary order, each with a cost w and a
value v, and are bought at once or never. With z the share of the budget B that
is spent, and L <= v/w <= U known,

    buy if v/w >= Ψ(z) and it fits,   Ψ(z) = (U e / L)^z L / e

(Zhou, Chakrabarty and Lukose, "Budget constrained bidding in keyword auctions
and online knapsack problems", 2008; for agents "Automated Composition of
Agents: A Knapsack Approach"). If no cost is more than ε B, the offline optimum
is at most

    (ln(U/L) + 1) (U e / L)^{2ε}

times what is bought, in every order. For ε -> 0 that is ZCL's ratio; the other
factor bounds what a whole component skips of Ψ, once where values are summed
instead of integrated and once where the last component does not fit.
"""

from typing import NamedTuple

import numpy as np


class Bounds(NamedTuple):
  """Smallest and largest value per cost."""

  low: float  # L, above 0
  high: float  # U


class Inventory(NamedTuple):
  """n components, in the order in which they arrive."""

  skill: np.ndarray  # [n] i64  what each is for
  success: np.ndarray  # [n] probability that it solves a task of the skill
  cost: np.ndarray  # [n] i64  at least 1
  described: np.ndarray  # [n] similarity of its description to the skill


def threshold(share: float, bounds: Bounds) -> float:
  """Computes Ψ, the least value per cost to pay when `share` is spent."""
  base = bounds.high * np.e / bounds.low
  return float(base**share * bounds.low / np.e)


def ratio_bound(bounds: Bounds, largest: float = 0.0) -> float:
  """Bounds optimum / bought.

  Args:
    largest: ε, of the budget
  """
  spread = bounds.high / bounds.low
  return float((np.log(spread) + 1) * (spread * np.e) ** (2 * largest))


def worth(bought: np.ndarray, x: Inventory) -> float:
  """Sums over skills the success of the best component that was bought.

  Args:
    bought: [n] bool
  """
  best = np.zeros(int(x.skill.max(initial=-1)) + 1)
  np.maximum.at(best, x.skill[bought], x.success[bought])
  return float(best.sum())


def online(
  x: Inventory, value: np.ndarray, budget: int, bounds: Bounds | None
) -> np.ndarray:
  """Buys online; the value is what a component adds to its skill.

  Args:
    value: [n] as estimated
    bounds: of the threshold; None: greedy, what adds anything and fits

  Returns: [n] bool, bought
  """
  best, spent = np.zeros(int(x.skill.max(initial=-1)) + 1), 0
  bought = np.zeros(len(value), bool)
  for i, (skill, cost) in enumerate(zip(x.skill, x.cost, strict=True)):
    adds = value[i] - best[skill]
    least = threshold(spent / budget, bounds) if bounds else 0.0
    if adds > 0 and adds / cost >= least and spent + cost <= budget:
      bought[i], best[skill] = True, value[i]
      spent += int(cost)
  return bought


def retrieval(x: Inventory, budget: int) -> np.ndarray:
  """Buys the best described component of each skill, the best first."""
  bought, spent, have = np.zeros(len(x.cost), bool), 0, set()
  for i in np.argsort(-x.described, kind='stable'):
    if x.skill[i] not in have:
      have.add(x.skill[i])
      if spent + x.cost[i] <= budget:
        bought[i] = True
        spent += int(x.cost[i])
  return bought


def offline(x: Inventory, value: np.ndarray, budget: int) -> np.ndarray:
  """Buys the best set of at most one component per skill that fits.

      best_j(b) = max(best_{j−1}(b), max_i best_{j−1}(b − w_i) + v_i)

  over the components i of skill j, value being the truth or estimated: [n].

  Returns: [n] bool, bought
  """
  best = np.zeros(budget + 1)
  steps = []
  for skill in np.unique(x.skill):
    new, choice = best.copy(), np.full(budget + 1, -1)
    for i in np.flatnonzero((x.skill == skill) & (x.cost <= budget)):
      cost = x.cost[i]
      gained = best[: budget + 1 - cost] + value[i]
      more = gained > new[cost:]
      new[cost:][more], choice[cost:][more] = gained[more], i
    best = new
    steps.append(choice)
  bought, left = np.zeros(len(value), bool), budget
  for choice in reversed(steps):
    i = choice[left]
    if i >= 0:
      bought[i] = True
      left -= int(x.cost[i])
  return bought


def probe(x: Inventory, probes: int, rng: np.random.Generator) -> np.ndarray:
  """Estimates successes by trying each component: (wins + ½) / (probes + 1)."""
  return (rng.binomial(probes, x.success) + 0.5) / (probes + 1)
