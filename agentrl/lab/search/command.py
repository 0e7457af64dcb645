"""The command `search`: searchers at one budget of calls, on a run's tasks."""

import itertools
import os
from collections.abc import Sequence
from typing import Any

from agentrl import domain
from agentrl.lab.search import opened, report, run, searchers
from agentrl.run import describe, evaluation


def check(names: Sequence[str], evaluator: str) -> None:
  """Raises ValueError for searchers that do not fit their evaluator."""
  for name in names:
    domain.OneOf(*searchers.SEARCHERS).check('--searchers', name)
  domain.OneOf(*opened.EVALUATORS).check('--evaluator', evaluator)
  guided = [name for name in names if name in searchers.GUIDED]
  if evaluator in opened.OF_ENDS and guided:
    raise ValueError(
      "--evaluator must be 'truth', 'learned' or a likelihood for"
      f' {", ".join(guided)}, which'
      f' choose before a trajectory ends, got {evaluator!r}'
    )


def search_run(
  workdir: str,
  names: Sequence[str],
  *,
  evaluator: str = 'truth',
  calls: int = 112,
  tasks: int = 64,
  together: int = 64,
  width: int = 4,
  c: float = 1.0,
  temperature: float = 1.0,
  limit: int | None = None,
  seed: int = 0,
  logged: int = 4,
  out: str | None = None,
) -> str:
  """Searches a run's held-out tasks with its newest policy; -> what to print.

  Args:
    names: of searchers
    evaluator: of values, one of `opened.EVALUATORS`, or several with commas
      between: every searcher is run by each
    calls: budget of messages of each task and searcher
    together: tasks that are searched at a time, whose trees are in memory
    width, c: of the searchers that have them
    logged: trees of each searcher that are logged for the viewer
    out: their folder; None: below the run's evaluations
  Raises:
    ValueError: the world, the evaluator or a searcher does not fit.
  """
  by = _evaluators(names, evaluator)
  how: dict[str, Any] = {'temperature': temperature, 'limit': limit}
  with opened.opened(workdir, tasks=tasks, calls=calls, seed=seed, **how) as it:
    s = it.experiment
    tasks = min(tasks, len(s.test))
    index = list(range(len(s.train), len(s.train) + tasks))
    values = {value: it.evaluator(value) for value in by}
    folder = out or f'{workdir}/evaluations/{it.step:06d}_search'
    sizes = {'calls': calls, 'turns': s.plan.turns}
    found: dict[str, run.Searched] = {}
    for (value, evaluate), name in itertools.product(values.items(), names):
      if name in searchers.BLIND and value != by[0]:
        continue  # it would find the same
      title = f'{name} by {value}' if len(by) > 1 else name
      searcher = searchers.bind(name, width=width, c=c)
      for i in range(0, tasks, together):
        some = index[i : i + together]
        x = run.search(it.forks, some, searcher, evaluate, **sizes)
        found[title] = found[title] + x if i else x
        if not i:
          where, trees = _place(folder, title), x.trees[:logged]
          report.write(s, it.forks, trees, some[:logged], where, it.step)
  head = (
    f'{describe.title(s)}, step {it.step}, temperature {temperature:g}:'
    f' {tasks} tasks, at most {calls} calls and {s.plan.turns} turns, values by'
    f' {", ".join(by)}; calls, tokens and turns are per task'
  )
  text = f'{head}\n\n{report.table(found)}'
  if not logged:
    return text
  first = _place(folder, next(iter(found)))
  return f'{text}\n\n{evaluation.to_see(first)}'


def _evaluators(names: Sequence[str], given: str) -> list[str]:
  """Reads evaluators that all fit the searchers."""
  by = [name.strip() for name in given.split(',')]
  for value in by:
    check(names, value)
  return by if {*names} - {*searchers.BLIND} else ['outcome']


def _place(folder: str, title: str) -> str:
  """Returns the folder of the trees of a searcher."""
  return os.path.join(folder, title.replace(' ', '_'))
