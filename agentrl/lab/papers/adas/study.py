"""Workflow study: does a search over scaffolds beat those written by hand?

Protocol; seeds below FIRST_SEED chose sizes and claims, others were measured. A
fixed policy, scripted, has at most 24 calls at a task of countdown. A search
begins with three workflows that are written by hand; a service proposes others,
each is played at TRIED tasks of 5 numbers, and the calls of all together are
the budget. The best is then played at TESTED held-out tasks of 5 numbers and of
the TRANSFERS. A claim holds if the 95% Student interval of paired differences
over seeds lies above 0.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentrl.lab import archive
from agentrl.lab.archive import Archive, Verdict
from agentrl.lab.papers.adas import scripted
from agentrl.lab.papers.adas import workflow as lib
from agentrl.lab.study import bounds
from agentrl.lab.study.bounds import Bound
from agentrl.service.base import Service

FIRST_SEED, SEEDS = 1000, 16
NUMBERS, TRIED, TESTED = 5, 100, 400
BUDGET = 30 * TRIED * lib.CALLS
TRANSFERS = {'4 numbers': 4, '6 numbers': 6}
MEASURES = ('held out', *TRANSFERS)


def _written(answer: str, *steps: Mapping[str, Any]) -> str:
  return json.dumps({'steps': steps, 'answer': answer})


def _samples(n: int) -> dict[str, Any]:
  return {'do': 'sample', 'n': n}


def _revising(times: int, by: str) -> dict[str, Any]:
  steps = [{'do': 'revise', 'n': 1}, {'do': 'keep', 'n': 1, 'by': by}]
  return {'do': 'repeat', 'times': times, 'steps': steps}


SAMPLES, COMMON, NEWEST = '24 samples, closest', '24 samples, common', 'newest'
CLOSEST = 'closest revised'
FIRST: Mapping[str, str] = {
  SAMPLES: _written('closest', _samples(lib.CALLS)),
  COMMON: _written('common', _samples(lib.CALLS)),
  NEWEST: _written('newest', _samples(1), _revising(lib.CALLS - 1, 'newest')),
}
HAND: Mapping[str, str] = {
  **FIRST,
  CLOSEST: _written(
    'closest', _samples(1), _revising(lib.CALLS - 1, 'closest')
  ),
}
FOUND, DRAWN = 'searched', 'drawn'
PROPOSERS: Mapping[str, Service] = {
  FOUND: scripted.change,
  DRAWN: scripted.draw,
}
NAMES = (*PROPOSERS, *HAND)


CLAIMS: Mapping[str, Bound] = {
  'The search finds a better workflow than the best that it began with': Bound(
    'held out', FOUND, SAMPLES
  ),
  'It is better than revising the closest attempt, which was not there': Bound(
    'held out', FOUND, CLOSEST
  ),
  'It is better than the best of workflows drawn under the same budget': Bound(
    'held out', FOUND, DRAWN
  ),
  'With 6 numbers it is better than the best that it began with': Bound(
    '6 numbers', FOUND, SAMPLES
  ),
  'With 4 numbers it is too': Bound('4 numbers', FOUND, SAMPLES),
}


def success(
  text: str, tasks: Sequence[lib.Task], policy: Service, seed: int
) -> tuple[float, int]:
  """Plays a workflow at tasks: -> the share solved, and calls.

  Raises:
    ValueError: the workflow is not in form.
  """
  made, wrong = lib.parsed(text)
  if wrong:
    raise ValueError(f'text must be a workflow, got {text!r:.80}: {wrong}')
  played = [
    lib.play(made, task, policy, archive.draw_seed(seed, i, 0))
    for i, task in enumerate(tasks)
  ]
  return float(np.mean([x for x, _ in played])), sum(n for _, n in played)


def search(
  arm: str, seed: int, *, budget: int = BUDGET, **fields: Any
) -> Archive:
  """Searches for a workflow by an arm of PROPOSERS; the policy is fixed."""
  tasks = scripted.tasks(NUMBERS, TRIED, seed)

  def evaluate(text: str, seed: int) -> Verdict:
    wrong = lib.parsed(text)[1]
    if wrong:
      return Verdict(0.0, 1, f'refused: {wrong}')
    solved, calls = success(text, tasks, scripted.policy, seed)
    return Verdict(solved, calls, f'{calls // len(tasks)} calls')

  return archive.search(
    [*FIRST.values()],
    evaluate,
    PROPOSERS[arm],
    budget=budget,
    most=TRIED * lib.CALLS,
    seed=seed,
    name=f'adas, {arm}',
    **fields,
  )


def tested(text: str, seed: int) -> dict[str, float]:
  """Measures a workflow at tasks that no search has seen."""
  numbers = {'held out': NUMBERS, **TRANSFERS}
  return {
    name: success(
      text,
      scripted.tasks(n, TESTED, 10**6 + seed),
      scripted.policy,
      10**6 + seed,
    )[0]
    for name, n in numbers.items()
  }


def measure(seeds: int = SEEDS, budget: int = BUDGET) -> dict[str, Any]:
  """Runs every arm.

  Returns: {'seeds', 'cells': {arm: {measure: [S]}}, 'found': [S] workflows,
    'refused': {arm: [S]}}
  """
  every = range(FIRST_SEED, FIRST_SEED + seeds)
  cells: dict[str, Any] = {}
  texts: dict[str, list[str]] = {x: [HAND[x]] * seeds for x in HAND}
  refused: dict[str, list[int]] = {}
  for arm in PROPOSERS:
    found = [search(arm, seed, budget=budget) for seed in every]
    texts[arm] = [archive.best(x).text for x in found]
    refused[arm] = [
      sum(e.said.startswith('refused') for e in x.entries) for x in found
    ]
  for arm in NAMES:
    each = [tested(t, s) for t, s in zip(texts[arm], every, strict=True)]
    cells[arm] = bounds.rounded(each)
  return {
    'seeds': seeds,
    'cells': cells,
    'found': texts[FOUND],
    'refused': refused,
  }


def table(report: Mapping[str, Any]) -> str:
  """Writes Markdown: claims, and success at each kind of task."""
  cells = report['cells']
  rows = {arm: [bounds.mean(cells[arm][x]) for x in MEASURES] for arm in NAMES}
  lines = bounds.claims(report, CLAIMS)
  return '\n'.join(lines + bounds.table(('success', *MEASURES), rows))
