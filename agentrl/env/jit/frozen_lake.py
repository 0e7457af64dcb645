"""FrozenLake inside jit: cross the ice to the goal, past the holes.

Gymnasium's rules: with probability `intended` the player moves as intended,
else to either side with equal probability; it cannot cross the border. Start
and goal are drawn at random, as in RAGEN (arXiv 2504.20073).
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar

import chex
import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from agentrl.env import splits
from agentrl.env.jit import base

DISCOUNT = 0.9  # of the value behind the `progress` column, per move


class LakeState(struct.PyTreeNode):
  """State of a lake; only the player moves."""

  holes: jax.Array  # [C] bool
  value: jax.Array  # [C] f32 discounted optimal value
  start: jax.Array  # [] i32 cell
  goal: jax.Array  # [] i32 cell
  player: jax.Array  # [] i32 cell


@dataclasses.dataclass(frozen=True)
class FrozenLake:
  """A task is holes bool[C], value f32[C], start and goal i32[]; C cells."""

  height: int = 4
  width: int = 4
  intended: float = 1 / 3  # probability; the rest is split over both sides
  turn_reward: float = 0.0  # every turn
  goal_reward: float = 1.0  # reaching the goal
  invalid_reward: float = -0.1  # more, where the message was not understood

  # In order: ice, hole, start, goal, player, player in a hole, player at goal.
  pieces: ClassVar[tuple[str, ...]] = (*'_HSGPX*', '\n')
  actions: ClassVar[tuple[str, ...]] = ('left', 'down', 'right', 'up')
  columns: ClassVar[tuple[str, ...]] = ('progress',)
  legend: ClassVar[str] = (
    '_ ice  H hole  S start  G goal  P player  X player in a hole'
    '  * player at the goal\ncross the ice to the goal'
  )

  def __post_init__(self):
    _check_lake(self.height, self.width, self.intended)

  @property
  def obs_len(self) -> int:
    """Pieces of an observation: the rows, each with its newline."""
    return self.height * (self.width + 1)

  def reset(
    self, key: jax.Array, task: dict[str, chex.Array]
  ) -> tuple[LakeState, jax.Array]:
    """Returns state, obs i32[obs_len]; ValueError for a task of other size."""
    del key  # a task is one map
    cells = self.height * self.width
    if task['holes'].shape != (cells,):
      raise ValueError(
        f'task holes must have {self.height} x {self.width} cells, got shape'
        f' {task["holes"].shape}; build the environment with env_for(source)'
      )
    start = jnp.asarray(task['start'], jnp.int32)
    state = LakeState(
      holes=jnp.asarray(task['holes']),
      value=jnp.asarray(task['value'], jnp.float32),
      start=start,
      goal=jnp.asarray(task['goal'], jnp.int32),
      player=start,
    )
    return state, self._observe(state)

  def step(
    self, state: LakeState, action: jax.Array, key: jax.Array
  ) -> tuple[LakeState, jax.Array, jax.Array, jax.Array]:
    """Plays one turn -> state, obs i32[obs_len], reward f32[], done bool[].

    Action -1 moves nothing, not even by slipping. In a hole or at the goal the
    state stays as it is and earns 0.
    """
    chex.assert_rank(action, 0)
    over = _over(state)
    u = jax.random.uniform(key)
    side = jnp.where(u < (1 + self.intended) / 2, -1, 1)
    turned = (action + jnp.where(u < self.intended, 0, side)) % 4
    goes = ~over & (action >= 0)
    moved = self._move(state.player, turned)
    after = state.replace(player=jnp.where(goes, moved, state.player))
    reward = (
      self.turn_reward
      + self.goal_reward * (after.player == after.goal)
      + self.invalid_reward * (action < 0)
    )
    reward = jnp.where(over, 0.0, reward).astype(jnp.float32)
    return after, self._observe(after), reward, _over(after)

  def score(self, state: LakeState) -> jax.Array:
    """Returns 1 at the goal, else 0; f32[]."""
    return (state.player == state.goal).astype(jnp.float32)

  def value(self, state: LakeState) -> jax.Array:
    """Returns the discounted value of `optimal_value`; f32[]."""
    return _value(state)

  def info(
    self, before: LakeState, action: jax.Array, after: LakeState
  ) -> dict[str, jax.Array]:
    """Returns progress = V(after) - V(before), V of `optimal_value`."""
    del action
    return {'progress': _value(after) - _value(before)}

  def _move(self, player: jax.Array, action: jax.Array) -> jax.Array:
    """Returns the cell one step on, within the border."""
    row, column = player // self.width, player % self.width
    row = row + (action == 1) - (action == 3)
    column = column + (action == 2) - (action == 0)
    row = jnp.clip(row, 0, self.height - 1)
    return row * self.width + jnp.clip(column, 0, self.width - 1)

  def _observe(self, state: LakeState) -> jax.Array:
    """Renders the map as piece indices i32[obs_len]."""
    cells = jnp.arange(state.holes.shape[0])
    piece = jnp.where(state.holes, 1, 0)
    piece = jnp.where(cells == state.start, 2, piece)
    piece = jnp.where(cells == state.goal, 3, piece)
    # The player covers its cell: 5 over a hole, 6 over the goal.
    over = jnp.where(piece == 1, 5, jnp.where(piece == 3, 6, 4))
    piece = jnp.where(cells == state.player, over, piece)
    rows = piece.reshape(self.height, self.width)
    ends = jnp.full((self.height, 1), len(self.pieces) - 1, rows.dtype)
    obs = jnp.concatenate([rows, ends], axis=1)
    return obs.reshape(-1).astype(jnp.int32)


def _over(state: LakeState) -> jax.Array:
  at = jnp.arange(state.holes.shape[0]) == state.player
  return jnp.any(at & state.holes) | (state.player == state.goal)


def _value(state: LakeState) -> jax.Array:
  at = jnp.arange(state.value.shape[0]) == state.player
  return jnp.sum(jnp.where(at, state.value, 0.0))


@dataclasses.dataclass(frozen=True)
class Lakes:
  """Random maps whose goal can be reached from the start over ice.

  Every cell but start and goal is a hole with probability 1 - `frozen`. Maps
  equal under the 8 symmetries of the square are one task.
  """

  height: int = 4
  width: int = 4
  frozen: float = 0.8
  intended: float = 1 / 3  # 1: not slippery

  def __post_init__(self):
    _check_lake(self.height, self.width, self.intended)
    if not 0 < self.frozen <= 1:
      raise ValueError(
        f'frozen must be a probability above 0, got {self.frozen}'
      )

  def name(self) -> str:
    """Returns frozen_lake-<size>-<hash of all settings>."""
    digest = splits.content_key(repr(self).encode())[:8]
    return f'frozen_lake-{self.height}x{self.width}-{digest}'

  def tasks(
    self, split: str, count: int, seed: int
  ) -> Iterator[base.SolvedTask]:
    """Yields distinct maps with a shortest path each; see `TaskSource`.

    The path ignores slipping.
    """
    rng = splits.split_rng(split, seed)

    def draw():
      """Draws a key and (holes bool[H, W], start, goal)."""
      holes = rng.random((self.height, self.width)) >= self.frozen
      start, goal = rng.choice(holes.size, 2, replace=False)
      holes.flat[[start, goal]] = False
      plane = holes.astype(np.uint8)
      plane.flat[[start, goal]] = 2, 3
      return splits.symmetric_key(plane), (holes, int(start), int(goal))

    def finish(key: str, draft) -> base.SolvedTask | None:
      holes, start, goal = draft
      actions = shortest_way(holes, start, goal)
      if actions is None:
        return None
      task = {
        'holes': holes.reshape(-1),
        'value': optimal_value(holes, goal, self.intended),
        'start': np.asarray(start, np.int32),
        'goal': np.asarray(goal, np.int32),
      }
      return base.SolvedTask(task, actions, key)

    return splits.distinct_tasks(draw, finish, split, count)


def env_for(source: Lakes, **fields: Any) -> FrozenLake:
  """Builds the environment of a source; `fields` override its settings."""
  fit = FrozenLake(source.height, source.width, source.intended)
  return dataclasses.replace(fit, **fields)


def shortest_way(holes: np.ndarray, start: int, goal: int) -> list[int] | None:
  """Finds the fewest actions from start to goal without slipping, or None.

  Args:
    holes: bool[H, W]; start and goal are flat cells.
  """
  chex.assert_rank(holes, 2)
  follow = _neighbours(*holes.shape)
  ways = {start: []}
  queue = [start]
  for cell in queue:
    if cell == goal:
      return ways[cell]
    for action in range(4):
      after = int(follow[action, cell])
      if after not in ways and not holes.flat[after]:
        ways[after] = [*ways[cell], action]
        queue.append(after)
  return None


def optimal_value(
  holes: np.ndarray, goal: int, intended: float, discount: float = DISCOUNT
) -> np.ndarray:
  """Computes V(goal) = 1, V(hole) = 0, V(s) = γ maxₐ Σ p(s'|s, a) V(s').

  Without slipping this is γ^distance. Iterated to a tolerance of 1e-9.

  Args:
    holes: bool[H, W].
    goal: flat cell.
    intended: probability of going where the action says.
    discount: γ < 1.

  Returns:
    f32[C], flat.
  """
  chex.assert_rank(holes, 2)
  follow = _neighbours(*holes.shape)  # [4, C]
  value = np.zeros(holes.size)
  value[goal] = 1.0
  ends = holes.reshape(-1) | (np.arange(holes.size) == goal)
  change = 1.0
  while change > 1e-9:
    ahead = value[follow]  # [4, C]
    sides = np.roll(ahead, 1, axis=0) + np.roll(ahead, -1, axis=0)
    best = (intended * ahead + (1 - intended) / 2 * sides).max(axis=0)
    new = np.where(ends, value, discount * best)
    change = np.abs(new - value).max()
    value = new
  return value.astype(np.float32)


def _neighbours(height: int, width: int) -> np.ndarray:
  """Returns the cell each action leads to within the border: i64[4, C]."""
  row, column = np.divmod(np.arange(height * width), width)
  left, right = np.maximum(column - 1, 0), np.minimum(column + 1, width - 1)
  up, down = np.maximum(row - 1, 0), np.minimum(row + 1, height - 1)
  cells = (row, left), (down, column), (row, right), (up, column)
  return np.stack([at * width + along for at, along in cells])


def _check_lake(height: int, width: int, intended: float) -> None:
  if min(height, width) < 1 or height * width < 2:
    raise ValueError(
      'the map must have at least two cells, for start and goal, got'
      f' {height} x {width}'
    )
  if not 0 <= intended <= 1:
    raise ValueError(f'intended must be in [0, 1], got {intended}')
