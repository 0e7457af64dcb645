"""Skills: what came of the newest attempts at each, and which are mastered.

A task belongs to one skill (env/skills.py). What a service has decided lies
here too: which skills are practised, and the library of those that it has found
to be mastered. All of it is in the TrainState, so that a run that was killed
goes on with the same curriculum.
"""

from typing import Annotated, Any

import jax.numpy as jnp
from flax import struct

from agentrl import domain, mesh, registry
from agentrl.memory.base import Memory
from agentrl.types import Array, Batch, Credit, Metrics

NAME = 'skills'  # of this memory
_ROUNDING = 1e-6  # of rates that are compared


class Practice(struct.PyTreeNode):
  """What is practised in a step, as a service has decided: a Batch has it."""

  skill: Array  # [n] i32  of every training task
  now: Array  # [S] bool  practised in this step
  added: Array  # [S] bool  to the library
  asked: Array  # [] i32  questions put to the service
  refused: Array  # [] i32  operations of its answers that cannot be used


class Skills(struct.PyTreeNode):
  """Of n tasks and at most S skills; a point is an update that practised it."""

  skill: Array  # [n] i32  of every training task
  won: Array  # [S, W] i32  solved attempts of the newest points, newest last
  tried: Array  # [S, W] i32  attempts of them; 0: there is no such point yet
  practised: Array  # [S] bool  in the newest step
  added: Array  # [S] i32  step at which it came into the library; -1: not there
  asked: Array  # [] i32  questions put to the service
  refused: Array  # [] i32  operations of its answers that could not be used


@registry.register('memory', gives=('memory:skills',))
def skills(
  *,
  capacity: domain.Count = 128,
  window: Annotated[int, domain.Whole(2)] = 4,
) -> Memory:
  """Keeps, for each skill, what came of the newest W updates that practised it.

  A step's attempts at a skill are a point (solved, attempts) of its curve. What
  a service decided before the step comes into the state with the batch.

  Args:
    capacity: S, skills that the training tasks may have
    window: W, points of a curve
  """

  def init(batch: Batch, tasks: int) -> Skills:
    return empty(batch, tasks, capacity, window)

  def write(state: Skills, batch: Batch, credit: Credit, step) -> Skills:
    if batch.practice is None:  # nothing was proposed
      return state
    return update(state, batch.practice, batch.attempted, step)

  return Memory(init=init, write=write, measure=measure)


def empty(batch: Batch, tasks: int, capacity: int, window: int) -> Skills:
  """Begins with no attempts and an empty library.

  Raises ValueError for batches that do not say what was attempted.
  """
  if not batch.attempted:
    raise ValueError(
      "c.memory: 'skills' needs batches that say what was attempted; fill"
      ' Batch.attempted, or leave it out'
    )
  return Skills(  # a buffer each: a state is donated
    skill=jnp.zeros(tasks, jnp.int32),
    won=jnp.zeros((capacity, window), jnp.int32),
    tried=jnp.zeros((capacity, window), jnp.int32),
    practised=jnp.zeros(capacity, bool),
    added=jnp.full(capacity, -1, jnp.int32),
    asked=jnp.zeros((), jnp.int32),
    refused=jnp.zeros((), jnp.int32),
  )


def decided(state: Skills, told: Practice, step) -> Skills:
  """Puts what a service decided into the state; the library only grows."""
  new = told.added & (state.added < 0)
  return state.replace(
    skill=told.skill,
    practised=told.now,
    added=jnp.where(new, step, state.added).astype(jnp.int32),
    asked=state.asked + told.asked,
    refused=state.refused + told.refused,
  )


def update(
  state: Skills, told: Practice, attempted: dict[str, Array], step
) -> Skills:
  """Adds a point to the curve of each skill that a step attempted.

  Args:
    attempted: by the step, see types.Batch.attempted
  """

  def f(x: Skills, told: Practice, attempted, step) -> Skills:
    counts = attempted['counts'].astype(jnp.int32)
    solved = counts * (attempted['outcome'] > 0.5)
    at = told.skill[attempted['task']]  # [A]
    zero = jnp.zeros(len(x.added), jnp.int32)
    new = zero.at[at].add(counts), zero.at[at].add(solved)
    seen = (new[0] > 0)[:, None]

    def appended(curve: Array, point: Array) -> Array:
      later = jnp.concatenate([curve[:, 1:], point[:, None]], axis=1)
      return jnp.where(seen, later, curve)

    x = decided(x, told, step)
    tried, won = appended(x.tried, new[0]), appended(x.won, new[1])
    return x.replace(tried=tried, won=won)

  return mesh.auto(f, None)(state, told, attempted, step)


def converged(won, tried, level: float, tolerance: float) -> Any:
  """Tells which curves are high and flat: [S] bool.

    W points,   new >= level,   |new - old| <= tolerance

  new and old are the shares of attempts that were solved in the newer half of
  the points, the larger one of an odd W, and in the older half.

  Args:
    won, tried: [S, W], as of `Skills`
  """
  half = won.shape[1] // 2
  whole = (tried > 0).all(axis=1)

  def rate(part: slice):
    count = tried[:, part].sum(axis=1)
    return won[:, part].sum(axis=1) / (count + (count == 0))

  old, new = rate(slice(half)), rate(slice(half, None))
  flat = abs(new - old) <= tolerance + _ROUNDING
  return whole & (new >= level - _ROUNDING) & flat


def measure(x: Skills) -> Metrics:
  """Measures the library, what is practised, and what came of it at last."""
  one = jnp.ones(())
  attempts = jnp.sum(x.practised * x.tried[:, -1])
  return {
    'skills/library': (jnp.sum(x.added >= 0), one),
    'skills/practised': (jnp.sum(x.practised), one),
    'skills/success': (jnp.sum(x.practised * x.won[:, -1]), attempts),
    'skills/asked': (x.asked, one),
    'skills/refused': (x.refused, one),
  }
