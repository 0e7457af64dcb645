"""Protocols of environments inside jit, of their tasks and families.

A `JitEnv` is a frozen dataclass of static numbers whose methods are pure: they
work under jit and vmap, and all that changes is in the state they return.
Observations are indices of text pieces, so that a rollout inside jit can turn
them into tokens with one table.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Protocol, runtime_checkable

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
    """Returns state, obs i32[obs_len]: piece indices, -1 past the end."""

  def step(
    self, state: chex.ArrayTree, action: jax.Array, key: jax.Array
  ) -> tuple[chex.ArrayTree, jax.Array, jax.Array, jax.Array]:
    """Plays one turn: -> state, obs i32[obs_len], reward f32[], done bool[].

    Args:
      state: as `reset` or `step` gave it; a finished one stays as it is and
        earns 0.
      action: i32[] in [-1, len(actions)); -1: the message was not understood.
      key: the randomness of this turn.
    """

  def score(self, state: chex.ArrayTree) -> jax.Array:
    """Returns the task's own score: f32[], 1 solved, 0 not."""

  def info(
    self, before: chex.ArrayTree, action: jax.Array, after: chex.ArrayTree
  ) -> dict[str, jax.Array]:
    """Returns columns beside the reward, f32[] each, named as `columns`."""


# (state, key) -> action i32[]
Mover = Callable[[Any, jax.Array], jax.Array]
# (state) -> pieces i32[summary_len], as `SummarizedEnv.summary`
Expert = Callable[[Any], jax.Array]


@runtime_checkable
class SeatedEnv(JitEnv, Protocol):
  """An environment of S > 1 seats that take turns, one message a turn.

  Its observation is what the seat to move sees, private parts included. Moves
  earn nothing by `step`: `returns` says at the end what each seat gets.
  """

  @property
  def seats(self) -> int:
    """S."""

  @property
  def turns(self) -> int:
    """The most turns of a seat."""

  def seat(self, state: chex.ArrayTree) -> jax.Array:
    """Returns the seat to move: i32[] in [0, S)."""

  def over(self, state: chex.ArrayTree) -> jax.Array:
    """Returns whether the match has ended: bool[]."""

  def returns(self, state: chex.ArrayTree) -> jax.Array:
    """Returns what each seat has got: f32[S], 0 until the match is over."""

  def wins(self, state: chex.ArrayTree) -> jax.Array:
    """Returns the score of each seat: f32[S], 1 won, 0 not."""


@runtime_checkable
class OneSeat(JitEnv, Protocol):
  """An environment in which the policy has one seat among others."""

  @property
  def turns(self) -> int:
    """The most turns of a seat."""

  def seat_of(self, task: dict[str, chex.Array]) -> jax.Array:
    """Returns the seat of the policy in a task: i32[]."""


@runtime_checkable
class Demonstrates(JitEnv, Protocol):
  """An environment that can move by itself, for supervised warm starts."""

  def demonstrate(self, state: chex.ArrayTree, key: jax.Array) -> jax.Array:
    """Returns an action of the seat to move: i32[]."""


@runtime_checkable
class SummarizedEnv(JitEnv, Protocol):
  """An environment whose demonstrations go on behind summaries.

  For rollout.history='compact'; see rollout/jit_compaction.py.
  """

  @property
  def summary_len(self) -> int:
    """The capacity of a summary, in pieces."""

  def summary(self, state: chex.ArrayTree) -> jax.Array:
    """Writes what an expert needs to go on: i32[summary_len], -1 past the end.

    Args:
      state: whose observation the expert has not seen yet
    """


@dataclasses.dataclass(frozen=True, eq=False)
class SolvedTask:
  """A task and one way to solve it."""

  task: dict[str, np.ndarray]  # what `JitEnv.reset` takes, unbatched
  actions: list[int]  # a demonstration; empty where none is known
  key: str  # content id: equal for what the family counts as the same task


def solved_task(key: str, draft: tuple[dict, list[int]]) -> SolvedTask:
  """Makes a task of its key and its (task, actions), as it was drawn."""
  task, actions = draft
  return SolvedTask(task, actions, key)


class TaskSource(Protocol):
  """A family of tasks with disjoint splits."""

  def name(self) -> str:
    """Returns a short name, safe in file names, with a hash of all settings."""

  def tasks(self, split: str, count: int, seed: int) -> Iterator[SolvedTask]:
    """Draws exactly `count` distinct tasks of a split, the same for one seed.

    No key is ever in both splits, whatever the counts and seeds.

    Raises:
      ValueError: unknown split, negative seed, or fewer tasks than asked for.
    """


class JitFamily(TaskSource, Protocol):
  """Settings that make tasks and an environment: what a config names.

  A frozen dataclass as `env.base.EnvFamily` is one, but its environment is
  compiled with the policy. The same class may be the environment as well.
  """

  @property
  def columns(self) -> tuple[str, ...]:
    """As of its environment."""

  @property
  def system(self) -> str:
    """Rules and moves in words, for a chat template; '': none."""

  @property
  def worker(self) -> str:
    """`env.base.JIT`."""

  def env(self) -> JitEnv:
    """Makes the environment."""


def render_text(env: JitEnv, obs: chex.Array) -> str:
  """Returns the text of an observation i32[obs_len]."""
  chex.assert_rank(obs, 1)
  return ''.join(env.pieces[i] for i in np.asarray(obs) if i >= 0)


def check(
  env: JitEnv, task: dict[str, np.ndarray], actions: np.ndarray
) -> None:
  """Checks what the methods return, by tracing them; computes nothing.

  Args:
    task: one of the source, unbatched
    actions: i32[...] of demonstrations, -1: none

  Raises:
    ValueError: a structure, shape or dtype is not that of `JitEnv`, a method
      does not trace, or there is no such action.
  """
  if actions.size and not -1 <= actions.min() <= actions.max() < len(
    env.actions
  ):
    raise ValueError(
      f'actions of demonstrations must be in [0, {len(env.actions)}), as'
      f' {type(env).__name__} has them, got {sorted(set(actions.flat))}'
    )
  key, action = jax.random.key(0), jax.ShapeDtypeStruct((), np.int32)
  obs = jax.ShapeDtypeStruct((env.obs_len,), np.int32)
  real = jax.ShapeDtypeStruct((), np.float32)
  done = jax.ShapeDtypeStruct((), np.bool_)
  begun = _traced(env.reset, key, task)
  # A structure of state is the environment's own: whatever reset gives.
  state = begun[0] if isinstance(begun, tuple) and begun else None
  _must(env.reset, begun, (state, obs))
  stepped = _traced(env.step, state, action, key)
  _must(env.step, stepped, (state, obs, real, done))
  _must(env.score, _traced(env.score, state), real)
  info = _traced(env.info, state, action, state)
  _must(env.info, info, dict.fromkeys(env.columns, real))


def _traced(method: Callable, *args: Any) -> Any:
  """Returns the shapes and dtypes of what a method returns."""
  try:
    return jax.eval_shape(method, *args)
  except jax.errors.JAXTypeError as error:
    raise ValueError(
      f'{method.__qualname__} must be arithmetic on arrays, such as jnp.where'
      f' in place of if, got {str(error).partition(chr(10))[0]}'
    ) from error


def _must(method: Callable, got: Any, want: Any) -> None:
  if _words(got) != _words(want):
    raise ValueError(
      f'{method.__qualname__} must return {_words(want)}, got {_words(got)}'
    )


def _words(tree: Any) -> str:
  """Returns shapes and dtypes in words: "(int32[4], {'near': float32[]})"."""
  if isinstance(tree, jax.ShapeDtypeStruct):
    return f'{tree.dtype}{list(tree.shape)}'
  if type(tree) is tuple:
    return '(' + ', '.join(map(_words, tree)) + ')'
  leaves = jax.tree_util.tree_leaves_with_path(tree)
  parts = (f'{jax.tree_util.keystr(at)}: {_words(x)}' for at, x in leaves)
  return '{' + ', '.join(parts) + '}'
