"""Sokoban levels: their text, their check, their keys, and random ones."""

import dataclasses
from collections.abc import Iterator
from typing import NoReturn, Protocol

import chex
import numpy as np

from agentrl.env import splits
from agentrl.env.jit import base, sokoban
from agentrl.env.jit import sokoban_solver as solver
from agentrl.env.jit.sokoban_solver import SolverLevel

# Wall, floor, box, target, box on target, player, player on target.
SYMBOLS = '# $.*@+'


class LevelSource(base.TaskSource, Protocol):
  """A source of Sokoban tasks, all of one size."""

  def shape(self) -> tuple[int, int, int]:
    """(height, width, boxes) that fit every task."""


def env_for(source: LevelSource, **fields: float | bool) -> sokoban.Sokoban:
  """The environment that fits a source; `fields` override its own.

  Sets with one box bring distances, so `truth` is on for them.
  """
  height, width, boxes = source.shape()
  fit = sokoban.Sokoban(height, width, boxes, truth=boxes == 1)
  return dataclasses.replace(fit, **fields)


def parse_level(
  lines: list[str], where: str = 'level', first_line: int = 1
) -> SolverLevel:
  """The level that rows of text show, checked.

  Rows may have different lengths; what is missing at their end becomes wall.

  Args:
    lines: rows of `SYMBOLS`.
    where: what errors call the level.
    first_line: number of the first row, for errors.

  Raises:
    ValueError: an unknown symbol, not exactly one player, no box, fewer
      targets than boxes, nothing to do, or a way out of the level.
  """

  def fail(problem: str, row: int = 0) -> NoReturn:
    raise ValueError(f'{where}, line {first_line + row}: {problem}')

  rows = [line.rstrip() for line in lines]
  if not any(rows):
    fail('the level has no rows')
  for number, row in enumerate(rows):
    for symbol in row:
      if symbol not in SYMBOLS:
        fail(f'{symbol!r} is none of the symbols {SYMBOLS!r}', number)
  width = max(map(len, rows))
  grid = np.array([list(row.ljust(width)) for row in rows])  # [H, W]
  players = np.flatnonzero(np.isin(grid, list('@+')))
  if not len(players):
    fail("the level has no player; put one '@' or '+'")
  if len(players) > 1:
    second = f'here stands player 2 of {len(players)}; keep one'
    fail(second, int(players[1]) // width)
  level = SolverLevel(
    walls=grid == '#',
    targets=np.isin(grid, list('.*+')),
    boxes=np.isin(grid, list('$*')),
    player=int(players[0]),
  )
  boxes, targets = int(level.boxes.sum()), int(level.targets.sum())
  if not boxes:
    fail("the level has no box; put at least one '$'")
  if boxes > targets:
    fail(
      f'{boxes} boxes are more than {targets} targets; add a target for each'
    )
  if not (level.boxes & ~level.targets).any():
    fail('every box is on a target already; move one off')
  if len(ways := _ways_out(level)):
    row, column = ways[0].tolist()
    fail(
      f'the player can leave the level at column {column + 1}; close it'
      " with '#'",
      row,
    )
  lengths = np.array([len(row) for row in rows])[:, None]
  missing = np.arange(width)[None, :] >= lengths
  return level._replace(walls=level.walls | missing)


def _ways_out(level: SolverLevel) -> np.ndarray:
  """Edge cells (row, column) that the player can reach, boxes aside: [n, 2]."""
  width = level.walls.shape[1]
  inner = np.zeros_like(level.walls)
  inner[1:-1, 1:-1] = True
  reached = 1 << level.player
  free, inside = solver.to_bits(~level.walls), solver.to_bits(inner)
  # The fill stays off the edge, where a shift would wrap to another row.
  if reached & inside:
    reached = solver.flood(free & inside, reached, width)
    reached |= solver.spread(reached, width) & free
  return np.argwhere(solver.to_mask(reached & ~inside, level.walls.shape))


def level_text(level: SolverLevel) -> str:
  """The text of a level, as `parse_level` reads it."""
  height, width = level.walls.shape
  at = np.arange(height * width).reshape(height, width) == level.player
  kind = np.where(level.walls, 0, np.where(level.boxes, 2, 1))
  kind = np.where(level.targets, np.where(level.boxes, 4, 3), kind)
  kind = np.where(at, np.where(level.targets, 6, 5), kind)
  return '\n'.join(''.join(SYMBOLS[k] for k in row) for row in kind)


def level_key(level: SolverLevel) -> str:
  """Content key: equal under mirroring, turning and moving the whole level.

  Only cells inside the walls count: outside, and in closed-off corners, two
  levels may differ and still be the same task.
  """
  shape, width = level.walls.shape, level.walls.shape[1]
  free = solver.to_bits(~level.walls)
  room = solver.to_mask(solver.flood(free, 1 << level.player, width), shape)
  room |= level.boxes | level.targets
  plane = 1 + 2 * level.targets + 4 * level.boxes  # [H, W] floor is 1
  plane.flat[level.player] += 8
  plane = np.where(room, plane, 0).astype(np.uint8)
  used = np.ix_(room.any(axis=1), room.any(axis=0))
  # A room is connected, so only rows and columns around it are dropped.
  return splits.symmetric_key(plane[used])


def level_task(
  level: SolverLevel, distance: np.ndarray | None
) -> dict[str, np.ndarray]:
  """Task of `Sokoban.reset`; `distance` i16[C, C] where there is one box."""
  chex.assert_rank(level.walls, 2)
  task = {
    'walls': level.walls.reshape(-1),
    'targets': level.targets.reshape(-1),
    'boxes': level.boxes.reshape(-1),
    'player': np.asarray(level.player, np.int32),
  }
  if distance is not None:
    task['distance'] = distance.reshape(-1)
  return task


@dataclasses.dataclass(frozen=True)
class Generated:
  """Random solvable levels, as drawn: no length is favoured by the filter.

  Every inner cell is a wall with probability `wall_density`; of what is left
  the largest connected room is kept. Targets stand anywhere in it. With one
  box, (player, box) is uniform over the positions whose shortest solution has
  the wanted length. With more, boxes and player are uniform and the level is
  kept if its shortest solution has the wanted length and is found in time.
  """

  height: int = 6
  width: int = 6
  boxes: int = 1
  min_moves: int = 4
  max_moves: int = 11  # of the shortest solution
  wall_density: float = 0.2
  max_nodes: int = 5000  # of the search, with more than one box

  def __post_init__(self):
    inner = (self.height - 2) * (self.width - 2)
    if min(self.height, self.width) < 3 or inner < 2 * self.boxes + 1:
      raise ValueError(
        f'{self.height} x {self.width} cells have no room for {self.boxes}'
        ' boxes, as many targets and a player; use a larger size'
      )
    if self.boxes < 1:
      raise ValueError(
        f'boxes={self.boxes} leaves nothing to do; use 1 or more'
      )
    if not 1 <= self.min_moves <= self.max_moves:
      raise ValueError(
        f'min_moves={self.min_moves} and max_moves={self.max_moves} allow no'
        ' level; use 1 <= min_moves <= max_moves'
      )
    if not 0 <= self.wall_density < 1:
      raise ValueError(
        f'wall_density={self.wall_density} is no probability below 1; use 0.2'
      )

  def name(self) -> str:
    """sokoban-<size>-<boxes>box-<hash of all settings>."""
    digest = splits.content_key(repr(self).encode())[:8]
    return f'sokoban-{self.height}x{self.width}-{self.boxes}box-{digest}'

  def shape(self) -> tuple[int, int, int]:
    """(height, width, boxes)."""
    return self.height, self.width, self.boxes

  def tasks(
    self, split: str, count: int, seed: int
  ) -> Iterator[base.SolvedTask]:
    """Distinct levels with a shortest solution each; see `TaskSource`."""
    rng = splits.split_rng(split, seed)

    def draw():
      """A key and (level, distances); None if the walls hold no level."""
      walls = _random_walls(rng, self.height, self.width, self.wall_density)
      free = rng.permutation(np.flatnonzero(~walls))
      if len(free) < 2 * self.boxes + 1:
        return None
      targets = _mask(free[: self.boxes], walls.shape)
      if self.boxes > 1:
        boxes = _mask(free[self.boxes : 2 * self.boxes], walls.shape)
        level = SolverLevel(walls, targets, boxes, int(free[-1]))
        return level_key(level), (level, None)
      table = solver.distance_table(walls, targets)
      fits = np.argwhere((table >= self.min_moves) & (table <= self.max_moves))
      if not len(fits):
        return None
      player, box = fits[rng.integers(len(fits))]
      boxes = _mask([box], walls.shape)
      level = SolverLevel(walls, targets, boxes, int(player))
      return level_key(level), (level, table)

    def finish(key: str, draft) -> base.SolvedTask | None:
      """The draft and its solution, or None if too short or too long."""
      level, table = draft
      if table is not None:
        box = int(np.argmax(level.boxes))
        actions = solver.descend(table, level.player, box, self.width)
      else:
        try:
          actions = solver.solve(level, self.max_nodes, self.max_moves)
        except solver.SearchLimitError:
          return None
        if actions is None or len(actions) < self.min_moves:
          return None
      return base.SolvedTask(level_task(level, table), actions, key)

    return splits.distinct_tasks(draw, finish, split, count)


def _random_walls(
  rng: np.random.Generator, height: int, width: int, density: float
) -> np.ndarray:
  """bool[H, W]: a border, random walls, and one connected room."""
  inside = rng.random((height - 2, width - 2)) >= density
  left = solver.to_bits(np.pad(inside, 1))
  largest = 0
  while left:
    room = solver.flood(left, left & -left, width)
    left &= ~room
    largest = max(largest, room, key=int.bit_count)
  return ~solver.to_mask(largest, (height, width))


def _mask(cells: np.ndarray | list[int], shape: tuple[int, int]) -> np.ndarray:
  """bool[H, W], true at flat cells."""
  mask = np.zeros(shape, bool)
  mask.flat[cells] = True
  return mask
