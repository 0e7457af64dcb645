"""Shortest solutions of Sokoban levels, on the host.

Sets of cells are Python integers, one bit per cell: a flood fill is then a few
shifts a layer. Shifts wrap at the end of a row, so every set that is spread
must lie inside the border; a level closed by walls guarantees that.
"""

import heapq
from collections.abc import Iterator
from typing import NamedTuple

import chex
import numpy as np


class SolverLevel(NamedTuple):
  """A level, row by row; `player` is a flat cell."""

  walls: np.ndarray  # [H, W] bool
  targets: np.ndarray  # [H, W] bool
  boxes: np.ndarray  # [H, W] bool
  player: int


class SearchLimitError(Exception):
  """The search was cut at its node limit: solvable or not is unknown."""


def to_bits(mask: np.ndarray) -> int:
  """Returns the set of true cells of bool[H, W]."""
  packed = np.packbits(mask.reshape(-1), bitorder='little')
  return int.from_bytes(packed.tobytes(), 'little')


def to_mask(bits: int, shape: tuple[int, int]) -> np.ndarray:
  """Converts a set of cells to bool[H, W]."""
  cells = shape[0] * shape[1]
  raw = np.frombuffer(bits.to_bytes((cells + 7) // 8, 'little'), np.uint8)
  flat = np.unpackbits(raw, bitorder='little', count=cells)
  return flat.reshape(shape).astype(bool)


def layers(free: int, start: int, width: int) -> list[int]:
  """Lists sets of cells 0, 1, ... steps from `start` inside `free`."""
  out, frontier, seen = [], start, start
  while frontier:
    out.append(frontier)
    frontier = spread(frontier, width) & free & ~seen
    seen |= frontier
  return out


def spread(cells: int, width: int) -> int:
  """Returns the four neighbours of every cell of a set."""
  return cells << 1 | cells >> 1 | cells << width | cells >> width


def flood(free: int, start: int, width: int) -> int:
  """Returns all cells that can be walked to from `start` inside `free`."""
  total = 0
  for layer in layers(free, start, width):
    total |= layer
  return total


def distance_table(walls: np.ndarray, targets: np.ndarray) -> np.ndarray:
  """Counts moves to solve from every (player, box), for a level with one box.

  D(s) = 0 if the box is on a target, else 1 + min over moves of D(next(s));
  found backwards, one sweep per distance.

  Args:
    walls, targets: bool[H, W].

  Returns:
    i16[C, C] over (player cell, box cell), -1 where no solution exists or the
    pair cannot be (a wall, or both in one cell).
  """
  chex.assert_rank([walls, targets], 2)
  chex.assert_equal_shape([walls, targets])
  free = np.flatnonzero(~walls)
  n = len(free)
  follow = _transitions(walls)  # [4, n * n]
  apart = ~np.eye(n, dtype=bool)
  solved = (targets.reshape(-1)[free][None, :] & apart).reshape(-1)
  distance = np.where(solved, 0, -1).astype(np.int16)  # [n * n]
  new, moves = solved, 0
  while new.any():
    moves += 1
    new = new[follow].any(axis=0) & (distance < 0)
    distance[new] = moves
  table = np.full((walls.size, walls.size), -1, np.int16)
  table[np.ix_(free, free)] = distance.reshape(n, n)
  return table


def _transitions(walls: np.ndarray) -> np.ndarray:
  """Moves (player, box) states by each action: i64[4, n * n], n free cells.

  A move that is blocked leads to its own state.
  """
  free = np.flatnonzero(~walls)
  n = len(free)
  number = np.full(walls.shape, n)
  number[~walls] = np.arange(n)
  padded = np.pad(number, 1, constant_values=n)
  up, down = padded[:-2, 1:-1], padded[2:, 1:-1]
  left, right = padded[1:-1, :-2], padded[1:-1, 2:]
  beside = np.stack([x[~walls] for x in (up, down, left, right)])  # [4, n]
  player, box = np.arange(n)[:, None], np.arange(n)[None, :]
  ahead = beside[:, :, None]  # [4, n, 1]
  new_box = np.where(ahead == box, beside[:, None, :], box)  # [4, n, n]
  legal = (ahead < n) & (new_box < n) & (player != box)
  states = np.where(legal, ahead * n + new_box, player * n + box)
  return states.reshape(4, n * n)


def descend(table: np.ndarray, player: int, box: int, width: int) -> list[int]:
  """Returns the shortest solution from (player, box): of equal moves the first.

  Args:
    table: i16[C, C] of `distance_table`; player and box are flat cells.
    width: cells of a row.

  Raises:
    ValueError: the pair has no solution.
  """
  chex.assert_rank(table, 2)
  if table[player, box] < 0:
    raise ValueError(f'player {player} and box {box} have no solution')
  actions = []
  while table[player, box] > 0:
    closer = table[player, box] - 1
    action, player, box = next(
      move for move in _moves(player, box, width) if table[move[1:]] == closer
    )
    actions.append(action)
  return actions


def _moves(player: int, box: int, width: int) -> Iterator[tuple[int, int, int]]:
  """Yields (action, player, box) after each action, walls not regarded."""
  for action, delta in enumerate((-width, width, -1, 1)):
    ahead = player + delta
    yield action, ahead, box + delta if ahead == box else box


class _Board(NamedTuple):
  """The static part of a search; sets of cells as bits."""

  width: int
  deltas: tuple[int, ...]  # of the four actions, in cells
  free: int  # cells inside the walls
  targets: int
  pushes: dict[int, int]  # cell bit -> pushes of a lone box to some target


def solve(
  level: SolverLevel, max_nodes: int = 100_000, max_moves: int | None = None
) -> list[int] | None:
  """Returns the shortest solution in moves, for any number of boxes.

  A* over the positions just after a push, (player, boxes); an edge is the walk
  to a box and the push. The bound is Σ over boxes of the pushes a lone box
  needs to its nearest target; cells from where none is reached are dead.

  Args:
    max_nodes: positions to expand at most.
    max_moves: if given, only solutions of at most so many moves count.

  Returns:
    Actions (0 up, 1 down, 2 left, 3 right), or None: there is no solution.

  Raises:
    SearchLimitError: max_nodes were expanded and the answer is not known.
  """
  chex.assert_equal_shape([level.walls, level.targets, level.boxes])
  width = level.walls.shape[1]
  deltas = (-width, width, -1, 1)
  player, boxes = 1 << level.player, to_bits(level.boxes)
  free = flood(to_bits(~level.walls), player, width)
  # A box that cannot be reached stands still: a wall if it is on its target.
  still = boxes & ~free & to_bits(level.targets)
  targets = to_bits(level.targets) & free
  pushes = _push_distances(free, targets, deltas)
  board = _Board(width, deltas, free, targets, pushes)
  start = player, boxes & ~still
  bits = list(_each(start[1]))
  if not board.pushes.keys() >= set(bits):
    return None
  bounds = [board.pushes[bit] for bit in bits]
  cost, parent = {start: 0}, {}
  heap = [(sum(bounds), 0, 0, start)]
  nodes, pushed = 0, 0
  while heap:
    total, _, moves, state = heapq.heappop(heap)
    if moves > cost[state]:
      continue  # a shorter way here was found later
    if not state[1] & ~board.targets:
      return _actions(board, parent, state)
    if nodes == max_nodes:
      raise SearchLimitError(f'no answer within max_nodes={max_nodes}')
    nodes += 1
    for walk, action, after, change in _successors(board, *state):
      new = moves + walk + 1
      bound = total - moves + change
      too_far = max_moves is not None and new + bound > max_moves
      if too_far or new >= cost.get(after, new + 1):
        continue
      cost[after], parent[after] = new, (state, action)
      pushed += 1  # equal bounds leave the queue in the order they came
      heapq.heappush(heap, (new + bound, pushed, new, after))
  return None


def _push_distances(
  free: int, targets: int, deltas: tuple[int, ...]
) -> dict[int, int]:
  """Counts a lone box's pushes from every cell to its nearest target."""
  distance, frontier, pushes = {}, targets, 0
  seen = targets
  while frontier:
    distance.update(dict.fromkeys(_each(frontier), pushes))
    # A push by d from x to x + d needs the player in x - d.
    back = [_shift(frontier, -d) & free & _shift(free, d) for d in deltas]
    frontier = (back[0] | back[1] | back[2] | back[3]) & ~seen
    seen |= frontier
    pushes += 1
  return distance


def _successors(
  board: _Board, player: int, boxes: int
) -> Iterator[tuple[int, int, tuple[int, int], int]]:
  """Yields every push: (walk before, action, state after, change of bound)."""
  open_cells = board.free & ~boxes
  stands = [  # from where a box can be pushed, per direction
    _shift(boxes & _shift(open_cells, -d), -d) & open_cells
    for d in board.deltas
  ]
  for walk, layer in enumerate(layers(open_cells, player, board.width)):
    for action, delta in enumerate(board.deltas):
      for stand in _each(layer & stands[action]):
        box = _shift(stand, delta)
        goal = _shift(box, delta)
        if goal in board.pushes:
          change = board.pushes[goal] - board.pushes[box]
          yield walk, action, (box, boxes ^ box ^ goal), change


def _actions(board: _Board, parent: dict, state: tuple[int, int]) -> list[int]:
  """Returns the moves from the start to `state`, walks filled in."""
  actions: list[int] = []
  while state in parent:
    before, action = parent[state]
    stand = _shift(state[0], -board.deltas[action])
    walk = _walk(board, before[0], stand, board.free & ~before[1])
    actions = [*walk, action, *actions]
    state = before
  return actions


def _walk(board: _Board, start: int, goal: int, free: int) -> list[int]:
  """Returns a shortest walk, found from its end: of equal moves the first."""
  actions = []
  away = layers(free, goal, board.width)
  distance = next(k for k, layer in enumerate(away) if layer & start)
  for layer in reversed(away[:distance]):
    for action, delta in enumerate(board.deltas):
      if _shift(start, delta) & layer:
        start = _shift(start, delta)
        actions.append(action)
        break
  return actions


def _shift(cells: int, delta: int) -> int:
  return cells << delta if delta > 0 else cells >> -delta


def _each(cells: int) -> Iterator[int]:
  """Yields the cells of a set one by one, as bits, the lowest first."""
  while cells:
    low = cells & -cells
    yield low
    cells ^= low
