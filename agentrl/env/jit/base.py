"""Protocols of environments inside jit and of their task sources.

A `JitEnv` is a frozen dataclass of static numbers whose methods are pure: they
work under jit and vmap, and all that changes is in the state they return.
Observations are indices of text pieces, so that a rollout inside jit can turn
them into tokens with one table.
"""

import dataclasses
from collections.abc import Iterator
from typing import Protocol

import chex
import jax
import numpy as np


class JitEnv(Protocol):
  """An environment that runs inside jit; one call is one trajectory's."""

  @property
  def pieces(self) -> tuple[str, ...]:
    """The text pieces that an observation is made of."""

  @property
  def actions(self) -> tuple[str, ...]:
    """The texts understood as actions; the index is the action."""

  @property
  def legend(self) -> str:
    """Explains to a person what an observation shows."""

  @property
  def obs_len(self) -> int:
    """The capacity of an observation, in pieces."""

  @property
  def columns(self) -> tuple[str, ...]:
    """The names of the per-turn columns that `info` gives."""

  def reset(
    self, key: jax.Array, task: dict[str, chex.Array]
  ) -> tuple[chex.ArrayTree, jax.Array]:
    """-> state, obs i32[obs_len]: piece indices, -1 past the end."""

  def step(
    self, state: chex.ArrayTree, action: jax.Array, key: jax.Array
  ) -> tuple[chex.ArrayTree, jax.Array, jax.Array, jax.Array]:
    """One turn: -> state, obs i32[obs_len], reward f32[], done bool[].

    Args:
      state: as `reset` or `step` gave it; a finished one stays as it is and
        earns 0.
      action: i32[] in [-1, len(actions)); -1: the message was not understood.
      key: the randomness of this turn.
    """

  def score(self, state: chex.ArrayTree) -> jax.Array:
    """The task's own score: f32[], 1 solved, 0 not."""

  def info(
    self, before: chex.ArrayTree, action: jax.Array, after: chex.ArrayTree
  ) -> dict[str, jax.Array]:
    """Per-turn columns beside the reward, f32[] each, named as `columns`."""


@dataclasses.dataclass(frozen=True, eq=False)
class SolvedTask:
  """A task and one way to solve it."""

  task: dict[str, np.ndarray]  # what `JitEnv.reset` takes, unbatched
  actions: list[int]  # a demonstration; empty where none is known
  key: str  # content id: equal for what the family counts as the same task


class TaskSource(Protocol):
  """A family of tasks with disjoint splits."""

  def name(self) -> str:
    """Short, safe in file names, with a hash of all settings."""

  def tasks(self, split: str, count: int, seed: int) -> Iterator[SolvedTask]:
    """Exactly `count` distinct tasks of a split; the same for the same seed.

    No key is ever in both splits, whatever the counts and seeds.

    Raises:
      ValueError: unknown split, negative seed, or fewer tasks than asked for.
    """


def render_text(env: JitEnv, obs: chex.Array) -> str:
  """The text of an observation i32[obs_len]."""
  chex.assert_rank(obs, 1)
  return ''.join(env.pieces[i] for i in np.asarray(obs) if i >= 0)


def stack_tasks(solved: list[SolvedTask]) -> dict[str, np.ndarray]:
  """The tasks as one batch: each array gains a leading axis [B, ...]."""
  return {
    name: np.stack([s.task[name] for s in solved]) for name in solved[0].task
  }
