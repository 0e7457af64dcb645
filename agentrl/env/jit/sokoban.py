"""Sokoban inside jit: push every box onto a target.

A board of C = height x width cells is flat, row by row. Levels must be closed
by walls, as `sokoban_levels.parse_level` checks. Masks over the C cells replace
indexing: they need no gather, batched or sharded.
"""

import dataclasses
from typing import ClassVar

import chex
import jax
import jax.numpy as jnp
from flax import struct

# In order: wall, floor, target, box, box on target, player, player on target.
SYMBOLS = '#_OX*PS'
NEWLINE = len(SYMBOLS)
DISCOUNT = 0.9  # of the value behind the `progress` column, per move

# Only the solved level pays: the setting of outcome-only papers.
SPARSE = {
  'turn_reward': 0.0,
  'on_reward': 0.0,
  'off_reward': 0.0,
  'solved_reward': 1.0,
  'invalid_reward': 0.0,
}


class SokobanState(struct.PyTreeNode):
  """State of a board; walls, targets and distance never change."""

  walls: jax.Array  # [C] bool
  targets: jax.Array  # [C] bool
  boxes: jax.Array  # [C] bool
  player: jax.Array  # [] i32 cell
  # [C * C] i16 moves to solve from (player, box), -1 never; None: no truth
  distance: jax.Array | None = None


@dataclasses.dataclass(frozen=True)
class Sokoban:
  """Standard rules with gym-sokoban's rewards, each a field.

  A task is walls, targets, boxes bool[C] and player i32[]; with `truth` also
  distance i16[C * C], as `sokoban_solver.distance_table` gives it.
  """

  height: int = 6
  width: int = 6
  boxes: int = 1
  truth: bool = False  # the task brings distances: one more column, `progress`
  coordinates: bool = False  # a last line such as P14X22O33, row and column
  turn_reward: float = -0.1  # every turn
  on_reward: float = 1.0  # a turn after which more boxes are on targets
  off_reward: float = -1.0  # a turn after which fewer are
  solved_reward: float = 10.0  # the last box
  invalid_reward: float = -0.1  # more, where the message was not understood

  actions: ClassVar[tuple[str, ...]] = ('up', 'down', 'left', 'right')

  def __post_init__(self):
    if min(self.height, self.width) < 3 or self.boxes < 1:
      raise ValueError(
        'a level must have at least 3 x 3 cells and 1 box, got'
        f' {self.height} x {self.width} and {self.boxes}'
      )
    if self.truth and self.boxes != 1:
      raise ValueError(f'boxes must be 1 with truth=True, got {self.boxes}')

  @property
  def pieces(self) -> tuple[str, ...]:
    """Symbols, the newline, and the numbers used in coordinates."""
    if not self.coordinates:
      return (*SYMBOLS, '\n')
    size = max(self.height, self.width)
    digits = len(str(size - 1))
    return (*SYMBOLS, '\n', *(f'{i:0{digits}d}' for i in range(size)))

  @property
  def legend(self) -> str:
    """The symbols, and the line of coordinates if there is one."""
    line = (
      '\nlast line: row and column of each, from 0; P34X32O22 is the player at'
      ' row 3,\ncolumn 4, a box at row 3, column 2 and a target at row 2,'
      ' column 2'
    )
    return (
      '# wall  _ floor  O target  X box  * box on a target  P player'
      f'  S player on a target{line if self.coordinates else ""}'
      '\npush every box onto a target'
    )

  @property
  def obs_len(self) -> int:
    """Pieces of an observation: the rows, each with its newline."""
    line = 3 * (1 + 2 * self.boxes) + 1 if self.coordinates else 0
    return self.height * (self.width + 1) + line

  @property
  def columns(self) -> tuple[str, ...]:
    """`progress` where the distances are known."""
    return ('progress',) if self.truth else ()

  def reset(
    self, key: jax.Array, task: dict[str, chex.Array]
  ) -> tuple[SokobanState, jax.Array]:
    """Returns state, obs i32[obs_len].

    Raises:
      ValueError: a task of another size, or without distances under `truth`.
    """
    del key  # a task is one level
    cells = self.height * self.width
    if task['walls'].shape != (cells,):
      raise ValueError(
        f'task walls must have {self.height} x {self.width} cells, got shape'
        f' {task["walls"].shape}; build the environment with env_for(source)'
      )
    if self.truth and 'distance' not in task:
      raise ValueError(
        'a task must have distance with truth=True, got fields'
        f' {sorted(task)}; use levels with one box, or set truth=False'
      )
    state = SokobanState(
      walls=jnp.asarray(task['walls']),
      targets=jnp.asarray(task['targets']),
      boxes=jnp.asarray(task['boxes']),
      player=jnp.asarray(task['player'], jnp.int32),
      distance=jnp.asarray(task['distance']) if self.truth else None,
    )
    return state, self._observe(state)

  def step(
    self, state: SokobanState, action: jax.Array, key: jax.Array
  ) -> tuple[SokobanState, jax.Array, jax.Array, jax.Array]:
    """Plays one turn -> state, obs i32[obs_len], reward f32[], done bool[].

    A blocked move changes nothing and costs a turn. A solved level stays as it
    is and earns 0.
    """
    del key  # the rules leave nothing to chance
    chex.assert_rank(action, 0)
    was_solved = _solved(state)
    deltas = jnp.array([-self.width, self.width, -1, 1], jnp.int32)  # [4]
    # Action -1 meets no entry: a delta of 0 leaves the board as it is.
    delta = jnp.sum(jnp.where(jnp.arange(4) == action, deltas, 0))
    after = _move(state, jnp.where(was_solved, 0, delta))
    done = _solved(after)
    change = _on_target(after) - _on_target(state)
    reward = (
      self.turn_reward
      + self.on_reward * (change > 0)
      + self.off_reward * (change < 0)
      + self.solved_reward * done
      + self.invalid_reward * (action < 0)
    )
    reward = jnp.where(was_solved, 0.0, reward).astype(jnp.float32)
    return after, self._observe(after), reward, done

  def score(self, state: SokobanState) -> jax.Array:
    """Returns 1 when every box is on a target, else 0; f32[]."""
    return _solved(state).astype(jnp.float32)

  def value(self, state: SokobanState) -> jax.Array:
    """Returns 0.9^(moves to solve), 0 if unsolvable; f32[], with `truth`."""
    return _value(state)

  def info(
    self, before: SokobanState, action: jax.Array, after: SokobanState
  ) -> dict[str, jax.Array]:
    """Returns progress = V(after) - V(before), V = 0.9^distance or 0."""
    del action
    if not self.truth:
      return {}
    return {'progress': _value(after) - _value(before)}

  def _observe(self, state: SokobanState) -> jax.Array:
    """Renders the board as piece indices i32[obs_len]."""
    at = jnp.arange(state.walls.shape[0]) == state.player
    plain = jnp.where(at, 5, jnp.where(state.boxes, 3, 1))
    marked = jnp.where(at, 6, jnp.where(state.boxes, 4, 2))
    piece = jnp.where(state.targets, marked, plain)
    piece = jnp.where(state.walls, 0, piece)
    rows = piece.reshape(self.height, self.width)
    ends = jnp.full((self.height, 1), NEWLINE, rows.dtype)
    obs = jnp.concatenate([rows, ends], axis=1).reshape(-1)
    if self.coordinates:
      obs = jnp.concatenate([obs, self._coordinates(state)])
    return obs.astype(jnp.int32)

  def _coordinates(self, state: SokobanState) -> jax.Array:
    """Lists symbol, row, column of player, boxes and one target per box."""
    n = self.boxes
    boxes, targets = (
      jnp.nonzero(x, size=n)[0] for x in (state.boxes, state.targets)
    )
    at = jnp.concatenate([state.player[None], boxes, targets])  # [1 + 2n]
    symbol = jnp.array([5] + [3] * n + [2] * n)
    line = [symbol, *(NEWLINE + 1 + x for x in jnp.divmod(at, self.width))]
    return jnp.append(jnp.stack(line, axis=1).reshape(-1), NEWLINE)


def _move(state: SokobanState, delta: jax.Array) -> SokobanState:
  """Moves the player by `delta` cells if possible; 0 changes nothing."""
  cells = jnp.arange(state.walls.shape[0])
  ahead = cells == state.player + delta  # [C] bool, one cell
  beyond = cells == state.player + 2 * delta
  is_box = jnp.any(state.boxes & ahead)
  has_room = jnp.any(beyond & ~state.walls & ~state.boxes)
  moves = jnp.any(ahead & ~state.walls) & (has_room | ~is_box)
  pushed = (state.boxes & ~ahead) | beyond
  return state.replace(
    boxes=jnp.where(moves & is_box, pushed, state.boxes),
    player=jnp.where(moves, state.player + delta, state.player),
  )


def _on_target(state: SokobanState) -> jax.Array:
  return jnp.sum(state.boxes & state.targets, dtype=jnp.int32)


def _solved(state: SokobanState) -> jax.Array:
  return ~jnp.any(state.boxes & ~state.targets)


def _value(state: SokobanState) -> jax.Array:
  """Returns 0.9^(moves to solve), 0 if the level became unsolvable."""
  assert state.distance is not None, 'only under `truth`, which asks for it'
  size = state.walls.shape[0]
  box = jnp.argmax(state.boxes).astype(jnp.int32)
  here = jnp.arange(size * size) == state.player * size + box
  distance = jnp.sum(jnp.where(here, state.distance, 0), dtype=jnp.int32)
  value = jnp.float32(DISCOUNT) ** distance.astype(jnp.float32)
  return jnp.where(distance >= 0, value, 0.0)
