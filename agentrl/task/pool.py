"""Task pools: choose tasks by the results of earlier attempts.

Every pool gives each task a weight w_i ≥ 0 and draws the tasks of a step by
weight without replacement, taking the largest

  log w_i − log(−log u_i),   u_i uniform on (0, 1)          (Gumbel's trick)

A task of weight 0 is drawn only if a step needs more tasks than have weight.
Unattempted tasks take part in every pool; the memory `task_statistics` holds
the results of the others.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from scipy import special

from agentrl import domain, registry
from agentrl.dataset import jit_tasks
from agentrl.memory.task_statistics import TaskStatistics
from agentrl.runtime import uniform
from agentrl.task import base
from agentrl.types import AttemptPlan, Attempts

Share = Annotated[float, domain.Real(0, 1, above=True)]
Part = Annotated[float, domain.Real(0, 1)]
Budget = Annotated[int, domain.COUNT0]
Memory = Mapping[str, Any]
_register = registry.register('task', needs=('memory:task_statistics',))


@_register
def difficulty_band(
  plan: AttemptPlan,
  memory: Memory,
  step: int,
  *,
  low: Annotated[float, domain.Real(0, most='high')] = 0.2,
  high: Share = 0.8,
  budget: Budget = 0,
) -> Attempts:
  """Draws tasks neither too hard nor too easy for the current policy:

    w_i = P(low < p < high),   p ~ Beta(1 + won_i, 1 + tried_i − won_i)

  the posterior of the task's success rate after discounted counts. A group
  whose members all fail, or all succeed, gives GRPO no signal (online
  difficulty filtering, arXiv 2504.03380; a posterior as in 2507.04632, which
  draws from it). Tasks that were too hard return as their counts fade.

  Args:
    low, high: success rates
    budget: most attempts at a task while others are left; 0: unlimited
  """
  x: TaskStatistics = memory['task_statistics']
  won, tried = np.float64(x.won), np.float64(x.tried)
  a, b = 1 + won, 1 + np.maximum(tried - won, 0)
  weight = special.betainc(a, b, high) - special.betainc(a, b, low)
  return _drawn(plan, x, weight, step, budget)


@_register
def learning_progress(
  plan: AttemptPlan,
  memory: Memory,
  step: int,
  *,
  explore: Part = 0.2,
  budget: Budget = 0,
) -> Attempts:
  """Draws tasks whose success rate changes, for better or worse:

    w_i = (1 − explore) |fast_i − slow_i| / Σ_j |fast_j − slow_j| + explore / n

  with two moving averages of the success rate (arXiv 1707.00183, 2106.14876).
  Unattempted tasks rank with the most promising one.

  Args:
    explore: share of uniform choice
    budget: as of `difficulty_band`
  """
  x: TaskStatistics = memory['task_statistics']
  progress = np.abs(x.fast - x.slow).astype(np.float64)
  progress[x.last < 0] = np.max(progress, initial=0.0) or 1.0
  total = np.sum(progress)
  share = progress / total if total else np.zeros_like(progress)
  weight = (1 - explore) * share + explore / plan.tasks
  return _drawn(plan, x, weight, step, budget)


@_register
def prioritized(
  plan: AttemptPlan,
  memory: Memory,
  step: int,
  *,
  temperature: Annotated[float, domain.Real(0, above=True)] = 0.3,
  staleness: Part = 0.1,
  budget: Budget = 0,
) -> Attempts:
  """Draws tasks by the rank of p (1 − p) and the age of the last attempt:

    w_i = (1 − staleness) h_i / Σ_j h_j + staleness c_i / Σ_j c_j
    h_i = rank_i^(−1 / temperature),   c_i = steps since its newest visit

  Prioritized level replay (arXiv 2010.03934) with the learnability p (1 − p)
  (2408.15099) as its score, p = (1 + won) / (2 + tried). Ties share their best
  rank; unattempted tasks rank first and count as a step older than any other.

  Args:
    temperature: of the ranks; a small one picks only the highest
    staleness: share of the second term
    budget: as of `difficulty_band`
  """
  x: TaskStatistics = memory['task_statistics']
  p = (1 + np.float64(x.won)) / (2 + np.float64(x.tried))
  score = np.where(x.last < 0, 1.0, p * (1 - p))
  # How many are better, and one.
  rank = 1 + score.size - np.searchsorted(np.sort(score), score, side='right')
  # Relative to the first: a small temperature must not underflow all of them.
  by_rank = (rank / rank.min()) ** (-1.0 / temperature)
  since = np.where(x.last < 0, 0.0, np.max(x.last) - x.last)
  since = np.where(x.last < 0, np.max(since) + 1, since)
  total = np.sum(since)
  weight = (1 - staleness) * by_rank / np.sum(by_rank)
  if total:
    weight += staleness * since / total
  return _drawn(plan, x, weight, step, budget)


@_register
def failures_first(
  plan: AttemptPlan,
  memory: Memory,
  step: int,
  *,
  share: Share = 1.0,
  every: domain.Count = 5,
  tries: Budget = 8,
) -> Attempts:
  """Draws tasks as `fixed`, and periodically repeats unsolved ones.

  A replay step first repeats tasks whose latest visit had no success, oldest
  first, up to a share of its groups; a task leaves when it is solved, or after
  `tries` visits without a success (replay of failed queries, DeepTravel, arXiv
  2509.21842).

  Args:
    share: most of the groups of a replay step that are repeats
    every: steps between replay steps
    tries: failed visits after which a task is dropped; 0: never
  """
  x: TaskStatistics = memory['task_statistics']
  order = jit_tasks.epoch_order(plan.tasks, plan.seed, step, plan.groups)
  if (step + 1) % every:
    return base.attempts_at(plan, order)
  left = (x.unsolved < tries) | (tries == 0)
  # A share of 0.29 of 100 is 29, whatever rounding makes of it.
  most = math.floor(round(share * plan.groups, 9))
  failed = np.flatnonzero((x.unsolved > 0) & left)
  oldest = np.argsort(np.asarray(x.last)[failed], kind='stable')
  again = failed[oldest][:most]
  others = order[~np.isin(order, again)]
  chosen = np.concatenate([again, others])[: plan.groups]
  return base.attempts_at(plan, chosen)


def _drawn(
  plan: AttemptPlan, x: TaskStatistics, weight, step: int, budget: int
) -> Attempts:
  """Makes groups of attempts at tasks drawn by weight [n]."""
  if budget:
    weight = np.where(x.attempts + plan.group <= budget, weight, 0.0)
  return base.attempts_at(plan, draw(weight, plan.groups, plan.seed, step))


def draw(weight, count: int, seed: int, step: int) -> np.ndarray:
  """Draws `count` of n places by weight [n], in order.

  Without replacement: no place repeats before all have been drawn. Places of
  weight 0 come last.
  """
  weight = np.asarray(weight, np.float64)
  u = uniform.draw(seed, step, weight.shape, uniform.UniformStream.TASKS)
  with np.errstate(divide='ignore'):
    order = np.argsort(-np.log(weight) + np.log(-np.log(u)), kind='stable')
  # Of equals at infinity the first would always come.
  empty = weight[order] <= 0
  rest = order[empty]
  order = np.concatenate([order[~empty], rest[np.argsort(u[rest])]])
  return np.resize(order, count)
