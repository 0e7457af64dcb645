"""Bifurcation inside jit: many turns, exactly one of which matters.

A task names the decisive turn and its right choice. On that turn a sign shows
the choice; messages on all other turns change nothing. The reward comes at the
end, so a method has to find the turn that earned it. The environment exists
because the value of each turn is known exactly (column `truth`).
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

WORDS = ('left', 'right', 'up', 'down', 'north', 'south', 'east', 'west')
LETTERS = tuple('abcdefghijklmnopqrstuvwxyz')
# What stands in place of the sign: nothing to decide yet, right, wrong.
NOTHING, WON, LOST = range(3)


class BifurcationState(struct.PyTreeNode):
  """State of a trajectory; only `turn` and `mark` change."""

  decisive: jax.Array  # [] i32  the turn that matters
  right: jax.Array  # [] i32  the action that is right there
  filler: jax.Array  # [F] i32  letters
  turn: jax.Array  # [] i32  turns done
  mark: jax.Array  # [] i32  NOTHING, WON or LOST


@dataclasses.dataclass(frozen=True)
class Bifurcation:
  """A task is decisive i32[], right i32[] and filler i32[F].

  On the decisive turn the choice is replaced by a uniform random one with
  probability `slip`. An invalid message is never right. The F filler letters
  name the task and make rows longer.
  """

  length: int = 5  # turns of every trajectory
  choices: int = 4
  slip: float = 0.0  # probability
  filler: int = 4
  won_reward: float = 1.0  # with the last turn
  invalid_reward: float = -0.1  # more, where the message was not understood

  columns: ClassVar[tuple[str, ...]] = ('progress', 'truth', 'decisive')
  legend: ClassVar[str] = (
    'number of the turn; - nothing to decide, a capital letter: choose the'
    ' direction\nit begins, + chosen right, ! chosen wrong; letters that name'
    ' the task\none turn decides'
  )

  def __post_init__(self):
    _check(self.length, self.choices, self.slip, self.filler)

  @property
  def actions(self) -> tuple[str, ...]:
    return WORDS[: self.choices]

  @property
  def pieces(self) -> tuple[str, ...]:
    """Turn numbers, marks, signs, letters, the newline."""
    digits = len(str(self.length))
    numbers = (f'{i:0{digits}d}' for i in range(self.length + 1))
    signs = (word[0].upper() for word in self.actions)
    return (*numbers, '-', '+', '!', *signs, *LETTERS, '\n')

  @property
  def obs_len(self) -> int:
    """Pieces of an observation: turn, mark or sign, filler, newline."""
    return 3 + self.filler

  def reset(
    self, key: jax.Array, task: dict[str, chex.Array]
  ) -> tuple[BifurcationState, jax.Array]:
    """Returns state, obs i32[obs_len]; ValueError for another filler's task."""
    del key  # a task leaves nothing open
    if task['filler'].shape != (self.filler,):
      raise ValueError(
        f'task filler must have shape {(self.filler,)}, got'
        f' {task["filler"].shape}; build the environment with env_for(source)'
      )
    state = BifurcationState(
      decisive=jnp.asarray(task['decisive'], jnp.int32),
      right=jnp.asarray(task['right'], jnp.int32),
      filler=jnp.asarray(task['filler'], jnp.int32),
      turn=jnp.int32(0),
      mark=jnp.int32(NOTHING),
    )
    return state, self._observe(state)

  def step(
    self, state: BifurcationState, action: jax.Array, key: jax.Array
  ) -> tuple[BifurcationState, jax.Array, jax.Array, jax.Array]:
    """Plays one turn -> state, obs i32[obs_len], reward f32[], done bool[]."""
    chex.assert_rank(action, 0)
    over = state.turn >= self.length
    slips, other = jax.random.split(key)
    random = jax.random.randint(other, (), 0, self.choices)
    slipped = (jax.random.uniform(slips) < self.slip) & (action >= 0)
    choice = jnp.where(slipped, random, action)
    decided = jnp.where(choice == state.right, WON, LOST)
    now = ~over & (state.turn == state.decisive)
    after = state.replace(
      turn=jnp.where(over, state.turn, state.turn + 1),
      mark=jnp.where(now, decided, state.mark),
    )
    reward = self.won_reward * self.score(after) + self.invalid_reward * (
      action < 0
    )
    reward = jnp.where(over, 0.0, reward).astype(jnp.float32)
    return after, self._observe(after), reward, after.turn >= self.length

  def score(self, state: BifurcationState) -> jax.Array:
    """Returns 1 at the end if the decisive choice was right, else 0; f32[]."""
    ended = state.turn >= self.length
    return (ended & (state.mark == WON)).astype(jnp.float32)

  def info(
    self, before: BifurcationState, action: jax.Array, after: BifurcationState
  ) -> dict[str, jax.Array]:
    """Returns the exact values of the turn, f32[] each.

    progress = V*(after) - V*(before), V* the chance to win when choosing
      right, slips included.
    truth = Q(s, a) - V(s), the exact advantage, in units of the reward, under
      the uniform random policy:
        Q - V = won_reward (1 - p) ([a right] - 1 / A) on the decisive turn,
        0 on the others; p the slip, A the choices.
      An invalid message wins with probability 0 there, and pays its price on
      every turn.
    decisive = 1 on the decisive turn.
    """
    going = before.turn < self.length
    now = going & (before.turn == before.decisive)
    silent = action < 0
    wins = (1 - self.slip) * (action == before.right) + self.slip / self.choices
    wins = jnp.where(silent, 0.0, wins)
    truth = jnp.where(now, self.won_reward * (wins - 1 / self.choices), 0.0)
    truth += jnp.where(going & silent, self.invalid_reward, 0.0)
    info = {
      'progress': self._value(after) - self._value(before),
      'truth': truth,
      'decisive': now,
    }
    return {name: jnp.asarray(x, jnp.float32) for name, x in info.items()}

  def _value(self, state: BifurcationState) -> jax.Array:
    """Returns the chance to win from here when choosing right."""
    open_ = 1 - self.slip + self.slip / self.choices
    return jnp.array([open_, 1.0, 0.0], jnp.float32)[state.mark]

  def _observe(self, state: BifurcationState) -> jax.Array:
    """Renders the observation as piece indices i32[obs_len]."""
    marks = self.length + 1
    signs = marks + 3
    letters = signs + self.choices
    now = state.turn == state.decisive
    sign = jnp.where(now, signs + state.right, marks + state.mark)
    end = jnp.int32(letters + len(LETTERS))
    return jnp.concatenate(
      [jnp.stack([state.turn, sign]), letters + state.filler, end[None]]
    ).astype(jnp.int32)


@dataclasses.dataclass(frozen=True)
class Bifurcations:
  """Random decisive turns, right choices and filler letters.

  There are length * choices * 26^filler tasks.
  """

  length: int = 5
  choices: int = 4
  slip: float = 0.0
  filler: int = 4

  def __post_init__(self):
    _check(self.length, self.choices, self.slip, self.filler)

  def name(self) -> str:
    """Returns bifurcation-<length>x<choices>-<hash of all settings>."""
    digest = splits.content_key(repr(self).encode())[:8]
    return f'bifurcation-{self.length}x{self.choices}-{digest}'

  def tasks(
    self, split: str, count: int, seed: int
  ) -> Iterator[base.SolvedTask]:
    """Yields distinct tasks, each with a winning sequence; see `TaskSource`.

    Actions off the decisive turn are random.
    """
    rng = splits.split_rng(split, seed)

    def draw():
      task = {
        'decisive': np.asarray(rng.integers(self.length), np.int32),
        'right': np.asarray(rng.integers(self.choices), np.int32),
        'filler': rng.integers(len(LETTERS), size=self.filler, dtype=np.int32),
      }
      way = rng.integers(self.choices, size=self.length).tolist()
      way[int(task['decisive'])] = int(task['right'])
      content = b''.join(x.tobytes() for x in task.values())
      return splits.content_key(content), (task, way)

    return splits.distinct_tasks(draw, base.solved_task, split, count)


def env_for(source: Bifurcations, **fields: Any) -> Bifurcation:
  """Builds the environment of a source; `fields` override its settings."""
  fit = Bifurcation(source.length, source.choices, source.slip, source.filler)
  return dataclasses.replace(fit, **fields)


def _check(length: int, choices: int, slip: float, filler: int) -> None:
  if length < 1 or not 2 <= choices <= len(WORDS) or filler < 0:
    raise ValueError(
      f'length must be at least 1, choices 2 to {len(WORDS)} and filler at'
      f' least 0, got {length}, {choices} and {filler}'
    )
  if not 0 <= slip <= 1:
    raise ValueError(f'slip must be a probability, got {slip}')
