"""Evaluation: held-out success, its number of episodes and interval."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from agentrl.rollout.record import Record
from agentrl.stats import intervals
from agentrl.task.base import make_attempts
from agentrl.types import Attempts, Status


class Ended(NamedTuple):
  """Outcomes of the trajectories of a record."""

  outcome: np.ndarray  # [..., B] f32
  turns: np.ndarray  # [..., B] how many
  status: np.ndarray  # [..., B] i32
  totals: dict[str, np.ndarray]  # [..., B] each column, summed over turns
  invalid: np.ndarray  # [..., B] turns whose message was not understood


def evaluate(
  play: Callable[[Attempts, jax.Array], Record],
  tasks: np.ndarray,
  *,
  episodes: int,
  batch: int,
  limit: int,
  temperature: float,
  key: jax.Array,
) -> tuple[dict[str, float], tuple[Record, Attempts]]:
  """Plays `episodes` episodes, cycling through the tasks.

  Args:
    play: (attempts of `batch` trajectories, key) -> Record
    tasks: [n] indices of held-out tasks
    batch: trajectories of one call; the last call's surplus is not counted
  Returns: metrics (95% interval, over tasks), the last record and attempts
  """
  ends, record, attempts = play_rounds(
    lambda attempts, i: play(attempts, jax.random.fold_in(key, i)),
    tasks,
    episodes=episodes,
    batch=batch,
    limit=limit,
    temperature=temperature,
  )
  return measure(ends, episodes, len(tasks)), (record, attempts)


def play_rounds(
  play: Callable[[Attempts, int], Record],
  tasks: np.ndarray,
  *,
  episodes: int,
  batch: int,
  limit: int,
  temperature: float,
) -> tuple[list[Ended], Record, Attempts]:
  """Plays until `episodes` are complete; returns the last record as well.

  Args:
    play: (attempts, number of the call) -> Record, of several seeds at once
      where its arrays have a leading axis
  """
  ends: list[Ended] = []
  record: Any = None
  attempts: Any = None
  for i in range(-(-episodes // batch)):
    index = (i * batch + np.arange(batch)) % len(tasks)
    attempts = make_attempts(tasks[index], 1, limit, temperature)
    record = jax.device_get(play(attempts, i))
    ends.append(ended(record))
  return ends, record, attempts


def ended(record: Record) -> Ended:
  """Returns what is measured of a record, host arrays."""
  valid = np.asarray(record.valid)
  totals = {
    name: np.sum(np.where(valid, x, 0), axis=-1)
    for name, x in record.columns.items()
  }
  return Ended(
    np.asarray(record.outcome),
    valid.sum(axis=-1),
    np.asarray(record.status),
    totals,
    np.sum(valid & (np.asarray(record.action) < 0), axis=-1),
  )


def measure(
  outcomes: Sequence[Ended], episodes: int, tasks: int
) -> dict[str, float]:
  """Returns the metrics of the first `episodes`; tasks: how many there are.

  Episode i attempts task i mod tasks. The interval is one over tasks: episodes
  of the same task are not independent (intervals.clustered).

  A trajectory whose environment broke is no evidence: it is no episode
  of the rates and of the interval, and counted as `unscored`. Where all of
  them broke, rates are NaN.
  """
  each = jax.tree.map(lambda *x: np.concatenate(x)[:episodes], *outcomes)
  solved, turns, ends = each.outcome, each.turns, each.status
  scored = ends != Status.ENV_ERROR
  solved, turns, n = solved[scored], turns[scored], int(np.sum(scored))
  wins = int(np.sum(solved > 0.5))
  task = (np.arange(scored.size) % tasks)[scored]
  low, high = intervals.clustered(solved > 0.5, task)
  metrics = {
    'eval/success': _mean(solved > 0.5),
    'eval/score': _mean(solved),
    'eval/ci_low': low,
    'eval/ci_high': high,
    'eval/solved': wins,
    'eval/episodes': n,
    'eval/unscored': episodes - n,
    'eval/tasks': tasks,
    'eval/turns': _mean(turns),
    'eval/invalid': _share(each.invalid[scored], turns),
  }
  for name, x in each.totals.items():
    metrics[f'eval/total/{name}'] = _mean(x[scored])
  if wins:
    metrics['eval/turns_solved'] = float(np.mean(turns[solved > 0.5]))
  for status in Status:
    if np.any(ends == status):
      metrics[f'eval/ended/{status.name.lower()}'] = float(
        np.mean(ends == status)
      )
  return metrics


def _share(part: np.ndarray, whole: np.ndarray) -> float:
  return float(part.sum() / whole.sum()) if whole.sum() else math.nan


def _mean(x: np.ndarray) -> float:
  return float(np.mean(x)) if x.size else math.nan
