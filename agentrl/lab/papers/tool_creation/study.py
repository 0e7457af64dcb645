"""Tool study: does a library of tools written from attempts solve more tasks?

Protocol; seeds below FIRST_SEED chose sizes and claims, others were measured. A
world has 13 kinds of tasks, 9 of strings and 4 of countdown. TRAINED tasks are
solved in their order, with 60 calls each, while the library grows; then it is
fixed, and TESTED tasks of the same kinds are solved, and UNSEEN ones that need
an argument which no training task needed, all of other inputs. A claim holds if
the 95% Student interval of the paired difference over seeds lies above 0.
"""

import os
import pathlib
import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agentrl.lab import archive
from agentrl.lab.papers.tool_creation import (
  library,
  programs,
  scripted,
  world,
)
from agentrl.lab.papers.tool_creation.library import Rules, State, Tool
from agentrl.lab.papers.tool_creation.programs import Bench
from agentrl.lab.papers.tool_creation.world import Kinds, Step, Task
from agentrl.lab.study import bounds
from agentrl.lab.study.bounds import Bound
from agentrl.tool.sandbox.sandbox import Sandbox

FIRST_SEED, SEEDS = 1000, 16
TRAINED, TESTED, UNSEEN = 120, 104, 48
LIBRARY, NONE, PLACEBO = 'library', 'no library', 'placebo'
UNMERGED, UNTRIED = 'not merged', 'not tried out'
ARMS: Mapping[str, Rules] = {
  LIBRARY: Rules(),
  NONE: Rules(reuse=False),
  UNMERGED: Rules(merge=False),
  UNTRIED: Rules(tryout=False),
}
NAMES = (*ARMS, PLACEBO)
# 'rise': of the last quarter of training tasks above the first
MEASURES = ('held out', 'unseen', 'trained', 'rise')
BLOCKS = TRAINED // Rules().batch


CLAIMS: Mapping[str, Bound] = {
  'With the library more held-out tasks are solved than without': Bound(
    'held out', LIBRARY, NONE
  ),
  'More than with as many tools that do other things': Bound(
    'held out', LIBRARY, PLACEBO
  ),
  'More than with tools that are not merged, in the same room': Bound(
    'held out', LIBRARY, UNMERGED
  ),
  'More than with tools that are not tried out': Bound(
    'held out', LIBRARY, UNTRIED
  ),
  'Accuracy rises over the training tasks, more than without': Bound(
    'rise', LIBRARY, NONE
  ),
  'More tasks of unseen arguments are solved than without': Bound(
    'unseen', LIBRARY, NONE
  ),
  'More of them than with tools that are not merged': Bound(
    'unseen', LIBRARY, UNMERGED
  ),
}


class Split(NamedTuple):
  """Tasks of a world, with no input in common."""

  kinds: Kinds
  train: list[Task]
  tests: dict[str, list[Task]]  # by measure


def draw(seed: int, trained: int = TRAINED) -> Split:
  """Draws a world."""
  kinds = world.draw_kinds(seed)
  train = world.draw(kinds.train, trained, archive.draw_seed(seed, 0, 3))
  test = world.draw(kinds.train, TESTED, archive.draw_seed(seed, 0, 4), train)
  unseen = world.draw(
    kinds.unseen, UNSEEN, archive.draw_seed(seed, 0, 5), train + test
  )
  return Split(kinds, train, {'held out': test, 'unseen': unseen})


class Benches(NamedTuple):
  """Benches that run tools over training tasks, and over each test's."""

  train: Bench
  tests: dict[str, Bench]


def benches(split: Split, sandbox: Sandbox) -> Benches:
  """Makes the benches of a world: a library grows on the first alone."""
  tests = {name: Bench(sandbox, x) for name, x in split.tests.items()}
  return Benches(Bench(sandbox, split.train), tests)


def success(
  tasks: Sequence[Task],
  tools: Sequence[Tool],
  bench: Bench,
  seed: int,
  first: int = 0,
) -> list[bool]:
  """Solves tasks with tools that stay as they are."""
  done = []
  for i, task in enumerate(tasks, first):
    tables = library.offered(tools, task.of, bench)[1]
    draw = archive.draw_seed(seed, i, 0)
    tried = scripted.solve(task, tables, Rules().calls, draw)
    done.append(tried.answer == task.asked.output)
  return done


def placebo(split: Split, bench: Bench, seed: int) -> list[Tool]:
  """Fills the room of each sort with tools that do other things.

  They do what no kind does, with an argument where one takes one.
  """
  rng = random.Random(archive.draw_seed(seed, 0, 6))
  kinds = [
    (of, scripted.written([(x, str(k or '')) for x, k in chain], of))
    for of, chain in (*split.kinds.train, *split.kinds.unseen)
  ]
  out: list[Tool] = []
  for of in world.STEPS:
    some: list[Tool] = []
    singles = [Step(x.name, int(x.k > 0)) for x in world.singles(of)]
    while len(some) < Rules().room:
      chain = rng.sample(singles, 2)
      if of == world.NUMBERS:
        chain = [Step(rng.choice(world.COMBINE)) for _ in range(2)]
        moves = [x for x in singles if x.name not in world.COMBINE]
        chain.insert(rng.randrange(2), rng.choice(moves))
      written = [(x.name, 'k' if x.k else '') for x in chain]
      new = Tool(scripted.written(written, of), of, 0)
      table = bench.run(new.source, of).table
      own = [bench.run(s, of).table for at, s in kinds if at == of]
      if not any(library.covers(table, x) for x in own):
        some.append(new)
    out += some
  return out


def as_many(tools: Sequence[Tool], bank: Sequence[str]) -> list[Tool]:
  """Takes the number of tools of each sort that a bank has."""
  out: list[Tool] = []
  for of in world.STEPS:
    out += [x for x in tools if x.of == of][: bank.count(of)]
  return out


def run(
  arm: str, split: Split, where: Benches, seed: int, like: State | None = None
) -> tuple[dict[str, Any], State]:
  """Runs an arm: its measures, and its library.

  Args:
    like: library whose size a placebo has, task by task
  """
  if arm == PLACEBO:
    assert like is not None
    others = placebo(split, where.train, seed)
    done: list[bool] = []
    for bank in like.banks:
      begin = len(done)
      batch = split.train[begin : begin + Rules().batch]
      tools = as_many(others, bank)
      done += success(batch, tools, where.train, seed, begin)
    last = as_many(others, [x.of for x in like.tools])
    state = State(tuple(last), tuple(done), like.banks)
  else:
    state = library.grow(
      split.train, where.train, scripted.write, ARMS[arm], seed=seed
    )
  tests = {
    name: float(
      np.mean(success(tasks, state.tools, where.tests[name], 10**6 + seed))
    )
    for name, tasks in split.tests.items()
  }
  each = np.reshape(np.array(state.done, float), (-1, Rules().batch)).mean(1)
  quarter = max(len(each) // 4, 1)
  return {
    **tests,
    'trained': float(each.mean()),
    'rise': float(each[-quarter:].mean() - each[:quarter].mean()),
    'each': each.tolist(),
    'tools': len(state.tools),
    'written': state.written,
    'refused': state.refused,
  }, state


def run_all(seed: int, sandbox: Sandbox) -> dict[str, dict[str, Any]]:
  """Runs every arm in a world."""
  split = draw(seed)
  where, out, like = benches(split, sandbox), {}, None
  for arm in NAMES:
    out[arm], state = run(arm, split, where, seed, like)
    like = state if arm == LIBRARY else like
  return out


def measure(
  seeds: int = SEEDS, folder: str | os.PathLike[str] | None = None
) -> dict[str, Any]:
  """Runs every arm in every world.

  Args:
    folder: where each world's figures are kept, so that what was cut off goes
      on

  Returns: {'seeds', 'cells': {arm: {measure: [S], 'each': [S][blocks],
    'tools': [S], 'written': [S], 'refused': [S]}}}
  """
  sandbox = Sandbox(programs.LIMITS)
  found = []
  for seed in range(FIRST_SEED, FIRST_SEED + seeds):
    path = pathlib.Path(folder) / f'{seed}.json' if folder else None
    head = {'name': 'tool_creation, all arms', 'seed': seed}
    held: Any = archive.loaded(path, head, dict)
    if held is None:
      held = run_all(seed, sandbox)
      if path:
        archive.saved(path, head, held)
    found.append(held)
  cells = {arm: bounds.rounded([x[arm] for x in found]) for arm in NAMES}
  return {'seeds': seeds, 'cells': cells}


def table(report: Mapping[str, Any]) -> str:
  """Writes Markdown: claims, accuracy, tools, and accuracy by task index."""
  rows = {}
  for arm in NAMES:
    of = report['cells'][arm]
    tools = ', '.join(f'{np.mean(of[x]):.1f}' for x in ('tools', 'written'))
    rows[arm] = [*(bounds.mean(of[x]) for x in MEASURES), tools]
  ends = [f'to {(i + 1) * Rules().batch}' for i in range(BLOCKS)]
  lines = bounds.claims(report, CLAIMS)
  lines += bounds.table(('accuracy', *MEASURES, 'tools, of written'), rows)
  lines += bounds.by_index(report, NAMES, ('by task index', *ends))
  return '\n'.join(lines)
