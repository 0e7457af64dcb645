"""Guard study: what a lifelong memory gives a visitor of many guards.

Protocol; seeds below FIRST_SEED chose sizes and claims, others were measured. A
world has its own customs and GUARDS guards, one after another, with QUERIES
queries at each. A claim holds if the 95% Student interval of the paired
difference over seeds lies above 0.
"""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from agentrl.lab import archive
from agentrl.lab.archive import Archive, Entry
from agentrl.lab.papers.guard_game import game, visitor
from agentrl.lab.papers.guard_game.visitor import ROLES, Team
from agentrl.lab.study import bounds
from agentrl.lab.study.bounds import Bound

FIRST_SEED, SEEDS, GUARDS, QUERIES, BLOCK = 1000, 16, 80, 20, 10
MEMORY, NONE, OTHER = 'memory', 'no memory', "another world's memory"
UNPLANNED, SINGLE = 'planner without memory', 'single turn'
# Roles that have a memory.
ARMS: Mapping[str, tuple[str, ...]] = {
  MEMORY: ROLES,
  NONE: (),
  OTHER: ROLES,
  UNPLANNED: (visitor.PRIMER, visitor.FINISHER),
}
NAMES = (*ARMS, SINGLE)
MEASURES = ('success', 'rise', 'saved')


CLAIMS: Mapping[str, Bound] = {
  'With memory more guards tell the word than without': Bound(
    'success', MEMORY, NONE
  ),
  'More than with as much memory of another world': Bound(
    'success', MEMORY, OTHER
  ),
  'More than with a planner that has no memory': Bound(
    'success', MEMORY, UNPLANNED
  ),
  'More than in single turns': Bound('success', MEMORY, SINGLE),
  'Without memory more than in single turns': Bound('success', NONE, SINGLE),
  'Success rises over the guards, more than without memory': Bound(
    'rise', MEMORY, NONE
  ),
  'Fewer queries are spent than without memory': Bound('saved', MEMORY, NONE),
}


class Life(NamedTuple):
  """Guards that were visited, and what is remembered of them."""

  open: tuple[bool, ...] = ()
  queries: tuple[int, ...] = ()
  entries: tuple[Entry, ...] = ()


def live(
  seed: int,
  remember: tuple[str, ...] = ROLES,
  *,
  guards: int = GUARDS,
  team: Team = visitor.SCRIPTED,
  other: Life | None = None,
  path: str | os.PathLike[str] | None = None,
) -> Life:
  """Visits the guards of a world in their order.

  Args:
    remember: roles that have a memory
    other: life whose memory is read in place of this one's
    path: file of the life; one that it holds goes on

  Raises:
    ValueError: the file is of another life.
  """
  head: dict[str, Any] = {
    'name': 'guard_game',
    'seed': seed,
    'remember': [*remember],
  }
  life = archive.loaded(path, head, _of_json) or Life()
  for i, guard in enumerate(game.draw(guards, seed)):
    if i < len(life.open):
      continue
    source = life if other is None else other
    own = Archive(source.entries[:i])
    memories = {x: own if x in remember else Archive() for x in ROLES}
    draw = archive.draw_seed(seed, i, 0)
    came = visitor.visit(guard, team, memories, QUERIES, draw)
    life = Life(
      (*life.open, came.open),
      (*life.queries, came.queries),
      (*life.entries, came.entry),
    )
    if path:
      archive.saved(path, head, life)
  return life


def _of_json(held: list[Any]) -> Life:
  opened, queries, entries = held
  entries = tuple(Entry(*x) for x in entries)
  return Life(tuple(opened), tuple(queries), entries)


def run(arm: str, seed: int) -> dict[str, Any]:
  """Runs an arm: its measures, and success by blocks of guards."""
  if arm == SINGLE:
    all_came = [
      visitor.ask_alone(x, QUERIES, archive.draw_seed(seed, i, 0))
      for i, x in enumerate(game.draw(GUARDS, seed))
    ]
    life = Life(
      tuple(x.open for x in all_came), tuple(x.queries for x in all_came)
    )
  else:
    other = live(10**6 + seed, guards=GUARDS) if arm == OTHER else None
    life = live(seed, ARMS[arm], guards=GUARDS, other=other)
  each = np.reshape(np.array(life.open, float), (-1, BLOCK)).mean(1)
  quarter = len(each) // 4
  return {
    'success': float(each.mean()),
    'rise': float(each[-quarter:].mean() - each[:quarter].mean()),
    'saved': float(np.mean(QUERIES - np.array(life.queries))),
    'each': each.tolist(),
  }


def measure(seeds: int = SEEDS) -> dict[str, Any]:
  """Runs every arm in every world.

  Returns: {'seeds', 'cells': {arm: {measure: [S], 'each': [S][blocks]}}}
  """
  cells: dict[str, Any] = {}
  for arm in NAMES:
    each = [run(arm, FIRST_SEED + i) for i in range(seeds)]
    cells[arm] = bounds.rounded(each)
  return {'seeds': seeds, 'cells': cells}


def table(report: Mapping[str, Any]) -> str:
  """Writes Markdown: claims, measures, and success by index of the guard."""
  cells = report['cells']
  rows = {arm: [bounds.mean(cells[arm][x]) for x in MEASURES] for arm in NAMES}
  ends = [f'to {i + BLOCK}' for i in range(0, GUARDS, BLOCK)]
  lines = bounds.claims(report, CLAIMS)
  lines += bounds.table(('arm', *MEASURES), rows)
  lines += bounds.by_index(report, NAMES, ('success by guard', *ends))
  return '\n'.join(lines)
