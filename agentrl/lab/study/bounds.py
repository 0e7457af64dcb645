"""Claims that one arm is above another over seeds: compared, told and kept.

A report holds the measures of every arm, a number for each seed:
{'seeds': S, 'cells': {arm: {measure: [S]}}}, and what else a study has.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agentrl.runtime import storage
from agentrl.stats import intervals, paired


class Bound(NamedTuple):
  """Arm `a` is above `b` in a measure."""

  measure: str
  a: str
  b: str


def of_seeds(
  run: Callable[[int], Mapping[str, Any]], seeds: Sequence[int], folder: str
) -> dict[str, Any]:
  """Runs each seed, or reads what an earlier call kept in folder/seed=i.json.

  Returns: {seed as text: what run made of it}, as JSON has it
  """
  os.makedirs(folder, exist_ok=True)
  out = {}
  for seed in seeds:
    path = os.path.join(folder, f'seed={seed}.json')
    if not os.path.exists(path):
      storage.write(path, json.dumps(run(seed)) + '\n')
    out[str(seed)] = read(path)
  return out


def read(path: str) -> dict[str, Any]:
  """Reads a report, or a part of one, that was written."""
  with open(path, encoding='utf-8') as f:
    return json.load(f)


def rounded(each: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
  """Collects the measures of one arm from its runs, to four digits."""

  def digits(x: Any) -> Any:
    return (np.round(x, 4) + 0.0).tolist()  # 0 for -0

  return {x: [digits(run[x]) for run in each] for x in each[0]}


def gap(report: Mapping[str, Any], bound: Bound) -> paired.Paired:
  """Compares two arms seed by seed."""
  a, b = (report['cells'][x][bound.measure] for x in (bound.a, bound.b))
  return paired.compare(a, b)


def mean(values: Sequence[float]) -> str:
  """Tells a mean with its 95% Student interval: '0.500 [0.400, 0.600]'."""
  low, high = intervals.mean_interval(values)
  return f'{np.mean(values):.3f} [{low:.3f}, {high:.3f}]'


def claims(report: Mapping[str, Any], of: Mapping[str, Bound]) -> list[str]:
  """Tells each claim with its difference, found if its interval is above 0."""
  lines = ['| claim | found | difference |', '|---|---|---|']
  for claim, bound in of.items():
    x = gap(report, bound)
    lines.append(
      f'| {claim} | {"yes" if x.low > 0 else "no"} | {x.mean:+.3f}'
      f' [{x.low:+.3f}, {x.high:+.3f}] |'
    )
  return lines


def table(head: Sequence[str], rows: Mapping[str, Sequence[str]]) -> list[str]:
  """Draws a Markdown table behind an empty line; rows by their first cell."""
  lines = ['', f'| {" | ".join(head)} |', '|---' * len(head) + '|']
  return lines + [f'| {" | ".join([x, *cells])} |' for x, cells in rows.items()]


def by_index(
  report: Mapping[str, Any], arms: Sequence[str], head: Sequence[str]
) -> list[str]:
  """Draws the mean over seeds of the measure 'each', [S][blocks]."""
  each = {x: np.mean(report['cells'][x]['each'], axis=0) for x in arms}
  return table(head, {x: [f'{v:.2f}' for v in y] for x, y in each.items()})


def keep(report: Mapping[str, Any], text: str, folder: str, name: str) -> None:
  """Prints the tables of a report and writes it to folder/name.json."""
  print(text)
  os.makedirs(folder, exist_ok=True)
  path = os.path.join(folder, f'{name}.json')
  storage.write(path, json.dumps(report) + '\n')
  print(f'written to {folder}')
