"""Knapsack study: which components of an agent to buy, one after the other.

Protocol; seeds below FIRST_SEED chose sizes and claims, others were measured.
Two kinds of inventories are drawn. `single` has one component per skill, known
values and a value per cost in BOUNDS: a knapsack, whose bound must hold in any
order. `rivals` has several per skill, of unknown success, whose descriptions
tell something of it: there selection is by probes, and no bound is claimed. A
claim holds if 95% Student intervals over inventories lie on its side of 0, and
one of the bound if it holds in every inventory.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from agentrl.lab.papers.knapsack import composer as lib
from agentrl.lab.papers.knapsack.composer import Bounds, Inventory
from agentrl.stats import intervals, paired

FIRST_SEED, INVENTORIES = 1000, 200
BOUNDS = Bounds(0.02, 1.0)  # of a success per cost, where values are known
ORDERS = ('random', 'rising', 'falling')  # by value per cost
SINGLE_BUDGET = 60
SKILLS, RIVALS = 20, 6
RIVALS_BOUNDS = Bounds(0.05, 0.5)
BUDGETS = (20, 40, 80, 160)
PROBES = (3, 30)
CORRELATIONS = (0.5, 0.9)  # of a description with the logit of success


def single(order: str, rng: np.random.Generator) -> Inventory:
  """Draws 120 components of a skill each; costs 1 to 3."""
  n = 120
  ends = np.log(BOUNDS.low), np.log(BOUNDS.high)
  density = np.exp(rng.uniform(*ends, n))
  cost = rng.integers(1, 4, n)
  if order != 'random':
    density = np.sort(density)[:: 1 if order == 'rising' else -1]
  return Inventory(np.arange(n), density * cost, cost, np.zeros(n))


def rivals(correlation: float, rng: np.random.Generator) -> Inventory:
  """Draws RIVALS components for each of SKILLS; cost does not tell success."""
  n = SKILLS * RIVALS
  quality, noise = rng.normal(size=(2, n))
  return Inventory(
    skill=rng.permutation(np.repeat(np.arange(SKILLS), RIVALS)),
    success=1 / (1 + np.exp(-1.5 * quality)),
    cost=rng.integers(2, 21, n),
    described=correlation * quality + np.sqrt(1 - correlation**2) * noise,
  )


def _ratios(order: str, seed: int) -> dict[str, float]:
  """Divides the optimum by what each online buyer has: {buyer: ratio}."""
  x = single(order, np.random.default_rng([seed, 0]))
  best = lib.worth(lib.offline(x, x.success, SINGLE_BUDGET), x)
  return {
    name: best / lib.worth(lib.online(x, x.success, SINGLE_BUDGET, bounds), x)
    for name, bounds in (('knapsack', BOUNDS), ('greedy', None))
  }


# Who selects: (inventory, estimates, budget) -> bought, and with which probes.
ESTIMATES: Mapping[str, Callable[..., np.ndarray]] = {
  'greedy': lambda x, v, budget: lib.online(x, v, budget, None),
  'knapsack': lambda x, v, budget: lib.online(x, v, budget, RIVALS_BOUNDS),
  'offline': lib.offline,
}
RETRIEVALS = {f'retrieval, r = {r}': r for r in CORRELATIONS}
OPTIMUM = 'optimum'
BUYERS = (
  *RETRIEVALS,
  *(f'{name}, {n} probes' for name in ESTIMATES for n in PROBES),
  OPTIMUM,
)
_PROBED = f'knapsack, {PROBES[1]} probes'

# Who solves more than whom, at which budgets.
CLAIMS: Mapping[str, tuple[str, str, tuple[int, ...]]] = {
  'At budgets up to 80 the online knapsack solves more than retrieval by'
  ' descriptions of r = 0.5': (_PROBED, BUYERS[0], BUDGETS[:3]),
  'It does with 3 probes of each component': (
    f'knapsack, {PROBES[0]} probes',
    BUYERS[0],
    BUDGETS[:3],
  ),
  'At budget 160 it does too': (_PROBED, BUYERS[0], BUDGETS[3:]),
  'At every budget it solves more than retrieval by descriptions of r = 0.9': (
    _PROBED,
    BUYERS[1],
    BUDGETS,
  ),
  'At every budget it solves more than buying whatever helps and fits': (
    _PROBED,
    f'greedy, {PROBES[1]} probes',
    BUDGETS,
  ),
}


def bought(seed: int, budget: int) -> tuple[Inventory, dict[str, np.ndarray]]:
  """Lets every buyer buy from the inventory of a seed."""
  described = {
    name: rivals(r, np.random.default_rng([seed, 0]))
    for name, r in RETRIEVALS.items()
  }
  x = described[BUYERS[0]]  # they differ in descriptions alone
  estimates = {
    n: lib.probe(x, n, np.random.default_rng([seed, 1, n])) for n in PROBES
  }
  return x, {
    **{name: lib.retrieval(y, budget) for name, y in described.items()},
    **{
      f'{name}, {n} probes': buy(x, estimates[n], budget)
      for name, buy in ESTIMATES.items()
      for n in PROBES
    },
    OPTIMUM: lib.offline(x, x.success, budget),
  }


def measure(inventories: int = INVENTORIES) -> dict[str, Any]:
  """Buys for every inventory.

  Returns: {'inventories', 'bound', 'ratios': {order: {buyer: [I]}}, 'rivals':
    {budget: {buyer: {'success': [I] mean over skills, 'spent': [I]}}}}
  """
  seeds = range(FIRST_SEED, FIRST_SEED + inventories)
  ratios = {
    order: _columns([_ratios(order, seed) for seed in seeds])
    for order in ORDERS
  }
  cells: dict[str, Any] = {}
  for budget in BUDGETS:
    each = [bought(seed, budget) for seed in seeds]
    cells[str(budget)] = {
      name: {
        'success': [round(lib.worth(b[name], x) / SKILLS, 4) for x, b in each],
        'spent': [int(x.cost[b[name]].sum()) for x, b in each],
      }
      for name in BUYERS
    }
  return {
    'inventories': inventories,
    'bound': lib.ratio_bound(BOUNDS, 3 / SINGLE_BUDGET),
    'ratios': ratios,
    'rivals': cells,
  }


def _columns(rows: list[dict[str, float]]) -> dict[str, list[float]]:
  return {name: [round(x[name], 4) for x in rows] for name in rows[0]}


def gain(
  report: Mapping[str, Any], a: str, b: str, budget: int
) -> paired.Paired:
  """Compares the success of two buyers over inventories."""
  cell = report['rivals'][str(budget)]
  return paired.compare(cell[a]['success'], cell[b]['success'])


def table(report: Mapping[str, Any]) -> str:
  """Writes Markdown: claims, ratios by order, success and cost by budget."""
  within = all(
    max(x['knapsack']) <= report['bound'] for x in report['ratios'].values()
  )
  lines = [
    '| claim | found |',
    '|---|---|',
    f'| In no inventory is the optimum more than {report["bound"]:.2f} times'
    f' what the online knapsack has | {"yes" if within else "no"} |',
  ]
  for claim, (a, b, budgets) in CLAIMS.items():
    holds = all(gain(report, a, b, x).low > 0 for x in budgets)
    lines.append(f'| {claim} | {"yes" if holds else "no"} |')
  lines += [
    '',
    '| order of arrival | knapsack: mean ratio | largest | greedy: mean ratio |'
    ' largest |',
    '|---|---|---|---|---|',
  ]
  for order, x in report['ratios'].items():
    cells = [
      f'{np.mean(x[name]):.2f} | {max(x[name]):.2f}'
      for name in ('knapsack', 'greedy')
    ]
    lines.append(f'| {order} | {" | ".join(cells)} |')
  columns = list(report['rivals'])
  lines += [
    '',
    f'| skills solved, and spent | {" | ".join(f"budget {x}" for x in columns)}'
    ' |',
    f'|---|{"---|" * len(columns)}',
  ]
  for name in BUYERS:
    cells = []
    for budget in columns:
      x = report['rivals'][budget][name]
      low, high = intervals.mean_interval(x['success'])
      mean = np.mean(x['success'])
      cells.append(
        f'{mean:.3f} [{low:.3f}, {high:.3f}], {np.mean(x["spent"]):.0f}'
      )
    lines.append(f'| {name} | {" | ".join(cells)} |')
  return '\n'.join(lines)
