"""Sampling again what has most to teach, in place of what has nothing."""

from typing import Annotated

import jax
import jax.numpy as jnp

from agentrl import domain, mesh, registry, segment
from agentrl.advantage.task_value import task_value
from agentrl.collect import dynamic
from agentrl.curate import select
from agentrl.types import Array, Batch, CollectInputs

Least = Annotated[float, domain.Real(0, 0.25, below=True)]


@registry.register('collect')
def value_sampling(x: CollectInputs, *, least: Least = 0.0) -> Batch:
  """Replaces groups without value by others at tasks of high value.

    V = p (1 − p) of a group, see advantage/task_value.py
    tasks of the second attempts ~ V / Σ V over the groups of the first ones

  VSPO (arXiv 2512.07478). As many attempts are made again, drawn with
  replacement and in groups of their own; in the batch stand the groups of
  V > least, the first attempts' before the second ones', as many as were asked
  for. Where too few are, others fill it at weight 0. Where no group has value,
  all tasks are drawn alike.

  Args:
    least: value up to which a group is left out
  """
  one = x.score(x.sample(x.attempts, x.key))
  b = one.outcome.shape[0]
  noise = jax.random.uniform(jax.random.fold_in(x.key, b), (b,))
  group = select.group_ids(one)
  # Of a step's attempts, whether they count or not.
  chosen = drawn(group_values(one), group, noise)
  task = mesh.auto(lambda tasks, at: tasks[at], None)(
    jnp.asarray(x.attempts.task), chosen
  )
  others = jnp.asarray(x.attempts.group)
  again = x.attempts.replace(task=task, group=others + jnp.max(others) + 1)
  two = x.score(x.sample(again, jax.random.fold_in(x.key, b + 1)))
  both = dynamic.one_after_another(one, two)
  good = task_value(both) > least
  whole = segment.segment_max(good.astype(jnp.float32), select.group_ids(both))
  order = segment.live_first(whole > 0)[:b]
  return dynamic.take(select.keep(both, good), order)


def group_values(batch: Batch) -> Array:
  """Returns V of the group, for members that do not count too: [B]."""
  return jnp.maximum(
    segment.segment_max(task_value(batch), select.group_ids(batch)), 0
  )


def drawn(value: Array, group: Array, noise: Array) -> Array:
  """Returns a trajectory of the group that is drawn for each group: [B] i32.

  The groups' values divide [0, 1) in their order; that in whose part the noise
  of a group lies is drawn for it. Of no value at all, each group has an equal
  part.

  Args:
    value: [B], equal for members
    group: [B] i32 in [0, B)
    noise: [B], uniform on [0, 1); that of group g is noise[g]
  """

  def f(value, group, noise):
    place = jnp.arange(group.size, dtype=jnp.int32)
    first = jnp.full_like(place, group.size).at[group].min(place)
    some = first < group.size
    part = jnp.where(some, value[jnp.minimum(first, group.size - 1)], 0)
    part = jnp.where(jnp.sum(part) > 0, part, some.astype(value.dtype))
    end = jnp.cumsum(part)
    at = jnp.searchsorted(end, noise * end[-1], side='right')
    return first[jnp.minimum(at, jnp.sum(some) - 1)][group]

  return mesh.auto(f, None)(value, group, noise)
