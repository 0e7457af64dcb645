"""Earlier policy versions in the state: what a batch of age S is sampled by.

With staleness S, batch n is sampled by version max(first, n − S), `first` being
the step at which the stage begins. The state holds what rollouts read of the S
versions before its own (TrainState.past), so that this depends on the state
alone: neither on timing nor on where a run was killed.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from agentrl import registry, segment
from agentrl.ops import counting
from agentrl.types import Array, Batch, Metrics, Seen, TrainState


class Reads(NamedTuple):
  """Names of what rollouts read of a state."""

  roles: tuple[str, ...]  # that training changes
  still: tuple[str, ...] = ()  # roles that never change
  memories: tuple[str, ...] = ()  # that tasks are chosen by


def seen(state: TrainState, reads: Reads) -> Seen:
  """Returns what rollouts read of the state and training changes."""
  return Seen(
    step=state.step,
    params={name: state.params[name] for name in reads.roles},
    memory={name: state.memory[name] for name in reads.memories},
  )


def begin(state: TrainState, reads: Reads, staleness: int) -> TrainState:
  """Returns the state whose S earlier versions are all as it is now.

  Each is a copy, since a state is donated.
  """
  if not staleness:
    return state.replace(past=())
  now = seen(state, reads)
  return state.replace(past=tuple(copy(now) for _ in range(staleness)))


def restart(state: TrainState) -> TrainState:
  """Makes every earlier version of the state as it is now."""
  return begin(state, _reads(state), len(state.past)) if state.past else state


def advance(state: TrainState) -> tuple[Seen, ...]:
  """Returns `past` as the update that replaces this version leaves it."""
  if not state.past:
    return ()
  return seen(state, _reads(state)), *state.past[:-1]


def _reads(state: TrainState) -> Reads:
  """Returns what the earlier versions of a state hold."""
  of = state.past[0]
  return Reads(roles=tuple(of.params), memories=tuple(of.memory))


def at(state: TrainState, age: int) -> TrainState:
  """Returns the state with what rollouts read as it was `age` updates ago."""
  if not age:
    return state.replace(past=())
  old = state.past[age - 1]
  return state.replace(
    step=old.step,
    params=state.params | old.params,
    memory={**(state.memory or {}), **old.memory} or (),
    past=(),
  )


def oldest(state: TrainState) -> TrainState:
  """Returns the state that the next batch is sampled by."""
  return at(state, len(state.past))


copy = jax.jit(lambda tree: jax.tree.map(jnp.copy, tree))


def has_ages(spec: registry.MethodSpec, bound: int) -> bool:
  """Returns whether a batch may have tokens of earlier versions.

  Args:
    bound: S
  """
  return bound > 0 or 'older_tokens' in registry.provided(spec)


def ages(batch: Batch, step: Array | int) -> Array:
  """Computes the age of each trajectory's oldest sampled token: [B] f32.

  In updates of the policy that wrote it; -inf where nothing was sampled.

  Args:
    step: the policy version that is trained on the batch; of several policies
      [R], each its own
  """
  index, rows = segment.index(batch).unit('trajectory'), batch.rows
  if jnp.ndim(step):
    own = jnp.asarray(step)[batch.ids['role']]  # [B]
    step = segment.index(batch).trajectories_to_tokens(own)
  age = (step - rows.version).astype(jnp.float32)
  return index.largest_turns(age, rows.sampled)[:, 0]


@jax.jit
def spans(batch: Batch) -> Metrics:
  """Measures how many versions apart the tokens of a trajectory are.

  'rollout/version_span': newest − oldest version of its sampled tokens
  """
  index, rows = segment.index(batch).unit('trajectory'), batch.rows
  version = rows.version.astype(jnp.float32)
  newest = index.largest_turns(version, rows.sampled)[:, 0]
  oldest = -index.largest_turns(-version, rows.sampled)[:, 0]
  known = jnp.isfinite(newest)
  span = jnp.where(known, newest - oldest, 0.0)
  count = jnp.sum(known.astype(jnp.float32))
  return {'rollout/version_span': (jnp.sum(span), count)}


@jax.jit
def aged(batch: Batch, step: Array | int) -> tuple[Batch, Metrics]:
  """Returns the batch with its ages among the ids, and their metrics.

  Metrics are of the trajectories that count.
  """
  age = ages(batch, step)
  known = jnp.isfinite(age) & counting.trajectories(batch)
  age = jnp.maximum(age, 0)
  mine = jnp.where(known, age, 0)
  metrics = {
    'rollout/age': (jnp.sum(mine), jnp.sum(known.astype(jnp.float32))),
    'rollout/age_max': (jnp.max(mine), jnp.ones(())),
  }
  ids = {**batch.ids, 'age': age.astype(jnp.int32)}
  return batch.replace(ids=ids), metrics
