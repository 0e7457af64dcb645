"""The command `search`: searchers at one budget of calls, on a run's tasks."""

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
  if evaluator == 'outcome' and guided:
    raise ValueError(
      f"--evaluator must be 'truth' or 'learned' for {', '.join(guided)}, which"
      " choose before a trajectory ends, got 'outcome'"
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
    evaluator: of values, one of `opened.EVALUATORS`
    calls: budget of messages of each task and searcher
    together: tasks that are searched at a time, whose trees are in memory
    width, c: of the searchers that have them
    logged: trees of each searcher that are logged for the viewer
    out: their folder; None: below the run's evaluations
  Raises:
    ValueError: the world, the evaluator or a searcher does not fit.
  """
  check(names, evaluator)
  how: dict[str, Any] = {'temperature': temperature, 'limit': limit}
  with opened.opened(workdir, tasks=tasks, calls=calls, seed=seed, **how) as it:
    s = it.experiment
    tasks = min(tasks, len(s.test))
    index = list(range(len(s.train), len(s.train) + tasks))
    evaluate = it.evaluator(evaluator)
    found: dict[str, run.Searched] = {}
    folder = out or os.path.join(
      workdir, 'evaluations', f'{it.step:06d}_search'
    )
    sizes = {'calls': calls, 'turns': s.plan.turns}
    for name in names:
      searcher = searchers.bind(name, width=width, c=c)
      for i in range(0, tasks, together):
        some = index[i : i + together]
        x = run.search(it.forks, some, searcher, evaluate, **sizes)
        found[name] = found[name] + x if i else x
        if not i:
          where = os.path.join(folder, name)
          trees = x.trees[:logged]
          report.write(s, it.forks, trees, some[:logged], where, it.step)
  head = (
    f'{describe.title(s)}, step {it.step}, temperature {temperature:g}:'
    f' {tasks} tasks, at most {calls} calls and {s.plan.turns} turns, values by'
    f' {evaluator!r}; all but success is per task'
  )
  text = f'{head}\n\n{report.table(found)}'
  if not logged:
    return text
  return f'{text}\n\n{evaluation.to_see(os.path.join(folder, names[0]))}'
