"""A planning oracle: observations end with the move that a planner would make.

The oracle of planning of LUMINA (arXiv 2601.16649), as part of the context that
the policy itself reads:

  ..board..
  next: up
"""

import dataclasses
from typing import Protocol, runtime_checkable

import chex
import jax
import jax.numpy as jnp

from agentrl.env.jit import base

OPTIMAL = 'optimal'  # the column: the message was a move of the planner's


@runtime_checkable
class ValuedEnv(base.JitEnv, Protocol):
  """An environment that knows what its states are worth."""

  def value(self, state: chex.ArrayTree) -> jax.Array:
    """Rates a state, f32[]: larger is better, 0 if nothing helps any more."""


@dataclasses.dataclass(frozen=True)
class Planned:
  """An environment whose observations have a line more.

  env: its moves leave nothing to chance; the planner makes the one that leads
    to the most value, the first of equal ones
  advises: whether the line names the move; else it is that of no advice, so
    that arms with and without the oracle have observations of one length
  """

  env: ValuedEnv
  advises: bool = True

  @property
  def actions(self) -> tuple[str, ...]:
    return self.env.actions

  @property
  def pieces(self) -> tuple[str, ...]:
    """The environment's, then a line for each action and one for none."""
    lines = (f'next: {action}\n' for action in (*self.env.actions, '?'))
    return (*self.env.pieces, *lines)

  @property
  def legend(self) -> str:
    return f'{self.env.legend}\nnext: the best move, ? where none helps'

  @property
  def obs_len(self) -> int:
    return self.env.obs_len + 1

  @property
  def columns(self) -> tuple[str, ...]:
    return (*self.env.columns, OPTIMAL)

  def reset(
    self, key: jax.Array, task: dict[str, chex.Array]
  ) -> tuple[chex.ArrayTree, jax.Array]:
    state, obs = self.env.reset(key, task)
    return state, self._with_line(state, obs)

  def step(
    self, state: chex.ArrayTree, action: jax.Array, key: jax.Array
  ) -> tuple[chex.ArrayTree, jax.Array, jax.Array, jax.Array]:
    after, obs, reward, done = self.env.step(state, action, key)
    return after, self._with_line(after, obs), reward, done

  def score(self, state: chex.ArrayTree) -> jax.Array:
    return self.env.score(state)

  def info(
    self, before: chex.ArrayTree, action: jax.Array, after: chex.ArrayTree
  ) -> dict[str, jax.Array]:
    """Returns the env's columns, and whether the action was a best one."""
    values = self._values(before)
    best = jnp.max(values)
    mine = jnp.max(jnp.where(jnp.arange(values.shape[0]) == action, values, -1))
    optimal = (mine == best) & (best > 0)
    return {
      **self.env.info(before, action, after),
      OPTIMAL: optimal.astype(jnp.float32),
    }

  def best_move(self, state: chex.ArrayTree) -> jax.Array:
    """Returns the planner's action, i32[]; their number where none helps."""
    values = self._values(state)
    best = jnp.argmax(values).astype(jnp.int32)
    return jnp.where(jnp.max(values) > 0, best, values.shape[0])

  def _values(self, state: chex.ArrayTree) -> jax.Array:
    """Returns the value that each action leads to, f32[A]."""
    key = jax.random.key(0)  # the moves leave nothing to chance

    def after(action):
      return self.env.value(self.env.step(state, action, key)[0])

    return jax.vmap(after)(jnp.arange(len(self.env.actions), dtype=jnp.int32))

  def _with_line(self, state: chex.ArrayTree, obs: jax.Array) -> jax.Array:
    none = len(self.env.actions)
    move = self.best_move(state) if self.advises else jnp.int32(none)
    piece = (len(self.env.pieces) + move).astype(jnp.int32)
    return jnp.append(obs, piece)
