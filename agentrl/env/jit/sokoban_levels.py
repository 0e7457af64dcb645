"""Sokoban levels: parsing, validation, keys and generation."""

import dataclasses
from collections.abc import Iterator
from typing import Any, NoReturn, Protocol

import chex
import numpy as np

from agentrl.env import splits
from agentrl.env.jit import base, sokoban
from agentrl.env.jit import sokoban_solver as solver
from agentrl.env.jit.sokoban_solver import SolverLevel

# Wall, floor, box, target, box on target, player, player on target.
SYMBOLS = '# $.*@+'


class LevelSource(base.TaskSource, Protocol):
  """Source of Sokoban tasks, all of one size."""

  def shape(self) -> tuple[int, int, int]:
    """Returns (height, width, boxes) that fit every task."""


def env_for(source: LevelSource, **fields: Any) -> sokoban.Sokoban:
  """Builds the environment of a source; `fields` override its settings.

  Levels with one box carry distances, so `truth` is on for them.
  """
  height, width, boxes = source.shape()
  fit = sokoban.Sokoban(height, width, boxes, truth=boxes == 1)
  return dataclasses.replace(fit, **fields)


def parse_level(
  lines: list[str], where: str = 'level', first_line: int = 1
) -> SolverLevel:
  """Parses and checks a level.

  Rows may have different lengths; they are padded with wall.

  Args:
    lines: rows of `SYMBOLS`.
    where: name of the level in errors.
    first_line: number of the first row, for errors.

  Raises:
    ValueError: an unknown symbol, not exactly one player, no box, fewer
      targets than boxes, a solved level, or a gap in the walls.
  """

  def fail(problem: str, row: int = 0) -> NoReturn:
    raise ValueError(f'{where}, line {first_line + row}: {problem}')

  rows = [line.rstrip() for line in lines]
  if not any(rows):
    fail('a level must have at least one row')
  for number, row in enumerate(rows):
    for symbol in row:
      if symbol not in SYMBOLS:
        fail(f'symbols must be among {SYMBOLS!r}, got {symbol!r}', number)
  width = max(map(len, rows))
  grid = np.array([list(row.ljust(width)) for row in rows])  # [H, W]
  players = np.flatnonzero(np.isin(grid, list('@+')))
  if not len(players):
    fail("a level must have one player, '@' or '+'")
  if len(players) > 1:
    second = f'a level must have one player, got {len(players)}'
    fail(second, int(players[1]) // width)
  level = SolverLevel(
    walls=grid == '#',
    targets=np.isin(grid, list('.*+')),
    boxes=np.isin(grid, list('$*')),
    player=int(players[0]),
  )
  boxes, targets = int(level.boxes.sum()), int(level.targets.sum())
  if not boxes:
    fail("a level must have at least one box, '$'")
  if boxes > targets:
    fail(f'a level must have a target for each of {boxes} boxes, got {targets}')
  if not (level.boxes & ~level.targets).any():
    fail('at least one box must be off its target')
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
  """Finds edge cells (row, column) reachable by the player: [n, 2]."""
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


def level_key(level: SolverLevel) -> str:
  """Returns a content key, invariant to mirroring, rotation and shifts.

  Only cells inside the walls count; levels that differ outside, or in closed
  corners, are the same task.
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
  """Builds a task of `Sokoban`; `distance` i16[C, C] with one box."""
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
  """Random solvable levels, unbiased by the length of their solution.

  Every inner cell is a wall with probability `wall_density`; the largest
  connected room is kept. Targets are uniform over it. With one box,
  (player, box) is uniform over positions whose shortest solution has an allowed
  length. With more, boxes and player are uniform and the level is kept if its
  shortest solution has an allowed length and is found in time.
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
        f'{self.height} x {self.width} cells are too few for {self.boxes}'
        ' boxes, their targets and a player; use a larger size'
      )
    if self.boxes < 1:
      raise ValueError(f'boxes must be at least 1, got {self.boxes}')
    if not 1 <= self.min_moves <= self.max_moves:
      raise ValueError(
        'min_moves and max_moves must satisfy 1 <= min_moves <= max_moves, got'
        f' {self.min_moves} and {self.max_moves}'
      )
    if not 0 <= self.wall_density < 1:
      raise ValueError(
        f'wall_density must be in [0, 1), got {self.wall_density}'
      )

  def name(self) -> str:
    """Returns sokoban-<size>-<boxes>box-<hash of all settings>."""
    digest = splits.content_key(repr(self).encode())[:8]
    return f'sokoban-{self.height}x{self.width}-{self.boxes}box-{digest}'

  def shape(self) -> tuple[int, int, int]:
    """Returns (height, width, boxes)."""
    return self.height, self.width, self.boxes

  def tasks(
    self, split: str, count: int, seed: int
  ) -> Iterator[base.SolvedTask]:
    """Yields distinct levels with a shortest solution; see `TaskSource`."""
    rng = splits.split_rng(split, seed)

    def draw():
      """Draws a key and (level, distances); None if the room is too small."""
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
      """Solves the draft; None if the solution is too short or too long."""
      level, table = draft
      actions: list[int] | None
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
  """Draws a border, random walls and one connected room: bool[H, W]."""
  inside = rng.random((height - 2, width - 2)) >= density
  left = solver.to_bits(np.pad(inside, 1))
  largest = 0
  while left:
    room = solver.flood(left, left & -left, width)
    left &= ~room
    largest = max(largest, room, key=int.bit_count)
  return ~solver.to_mask(largest, (height, width))


def _mask(cells: np.ndarray | list[int], shape: tuple[int, int]) -> np.ndarray:
  """Returns bool[H, W], true at flat cells."""
  mask = np.zeros(shape, bool)
  mask.flat[cells] = True
  return mask
