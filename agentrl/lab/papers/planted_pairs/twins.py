"""Twins of solver trajectories of Sokoban, each with one planted fault.

  wrong    a message names another action; the rest stays, and does not solve
  invalid  a message names no action; the rest stays, and does not solve
  loop     there and back LAPS times, and the end is cut off: time is up
  detour   there and back once; it solves, DETOUR turns later

All but detours have the length of what they are twins of.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

KINDS = ('wrong', 'invalid', 'loop', 'detour')
EQUAL = KINDS[:3]  # as long as the solver's
NO_ACTION = -1
DETOUR, LAPS = 2, 2  # turns of a detour; how often a loop is walked
BACK = (1, 0, 3, 2)  # the action that undoes a plain move


class Twin(NamedTuple):
  """What was planted, at which turn, and the actions that came of it."""

  kind: str
  turn: int
  actions: list[int]


class Board(NamedTuple):
  """A level with one box as the rules need it: flat cells."""

  walls: np.ndarray  # [C] bool
  targets: np.ndarray  # [C] bool
  width: int


def move(board: Board, player: int, box: int, action: int) -> tuple[int, int]:
  """Returns player and box after an action; what is blocked stays."""
  if action == NO_ACTION or board.targets[box]:  # a solved level stays too
    return player, box
  delta = (-board.width, board.width, -1, 1)[action]
  ahead = player + delta
  if board.walls[ahead] or (ahead == box and board.walls[ahead + delta]):
    return player, box
  return ahead, box + delta if ahead == box else box


def positions(
  board: Board, player: int, box: int, actions: Sequence[int]
) -> list[tuple[int, int]]:
  """Returns player and box before each action, and after the last."""
  out = [(player, box)]
  for action in actions:
    out.append(move(board, *out[-1], action))
  return out


def planted(
  task: Mapping[str, np.ndarray],
  width: int,
  actions: Sequence[int],
  rng: np.random.Generator,
) -> list[Twin]:
  """Plants a fault of each of KINDS, uniformly among where it is one.

  Returns: twins in the order of KINDS; none where one of them has no room

  Args:
    task: of `env.jit.sokoban`, with one box
    actions: of a shortest solution
  """
  board = Board(task['walls'], task['targets'], width)
  start = int(task['player']), int(np.argmax(task['boxes']))
  out = []
  for kind in KINDS:
    found = list(_faults(kind, board, start, list(actions)))
    if not found:
      return []
    out.append(found[int(rng.integers(len(found)))])
  return out


def _faults(
  kind: str, board: Board, start: tuple[int, int], actions: list[int]
) -> Iterator[Twin]:
  """Yields every twin of a kind."""
  n = len(actions)
  if kind in ('wrong', 'invalid'):
    other = range(4) if kind == 'wrong' else (NO_ACTION,)
    for turn, action in ((k, a) for k in range(n) for a in other):
      new = [*actions[:turn], action, *actions[turn + 1 :]]
      end = positions(board, *start, new)[-1]
      if action != actions[turn] and not board.targets[end[1]]:
        yield Twin(kind, turn, new)
    return
  laps = LAPS if kind == 'loop' else 1
  for turn, (player, box) in enumerate(positions(board, *start, actions)[:-1]):
    for action, back in enumerate(BACK):
      there = move(board, player, box, action)
      if there[0] == player or there[1] != box:
        continue  # blocked, or the box would not come back
      new = [*actions[:turn], *laps * [action, back], *actions[turn:]]
      if kind == 'detour':
        yield Twin(kind, turn, new)
      elif turn + laps * DETOUR <= n:
        yield Twin(kind, turn, new[:n])
