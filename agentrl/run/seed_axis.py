"""Runs side by side on the devices, and what each of them writes.

Run i is lane i: arrays have a leading axis [S], laid out over the devices.
The lanes never talk to each other, so each is the run that it would have been
alone. What comes back to the host is dealt out to one folder each.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from agentrl import checkpoint
from agentrl.log import metrics

SPEC = PartitionSpec('lane')


class Lanes(NamedTuple):
  """S lanes, equally many on each device of the mesh."""

  count: int  # S
  mesh: Mesh


def over_devices(count: int) -> Lanes:
  """As many devices as hold equally many of the lanes."""
  devices = jax.devices()
  n = max(d for d in range(1, len(devices) + 1) if count % d == 0)
  return Lanes(count, Mesh(np.array(devices[:n]), SPEC))


def spread(lanes: Lanes, f: Callable) -> Callable:
  """A function of one run's arrays, as one of all runs' arrays [S, ...].

  A lane that has a device to itself is not vmapped: its loops end and its
  branches are taken as if it were alone.
  """

  def local(*args):
    if lanes.count > lanes.mesh.size:
      return jax.vmap(f)(*args)
    out = f(*jax.tree.map(lambda x: x[0], args))
    return jax.tree.map(lambda x: jnp.expand_dims(x, 0), out)

  # check_vma: every result differs from lane to lane, none is replicated.
  return jax.shard_map(
    local, mesh=lanes.mesh, in_specs=SPEC, out_specs=SPEC, check_vma=False
  )


def stack(lanes: Lanes, trees: Sequence[Any]) -> Any:
  """A tree of arrays for each lane -> one of [S, ...], on their devices."""
  where = NamedSharding(lanes.mesh, SPEC)

  def join(*leaves):
    together = jnp.stack if _is_key(leaves[0]) else np.stack
    return jax.device_put(together(leaves), where)

  return jax.tree.map(join, *trees)


def same(lanes: Lanes, tree: Any) -> Any:
  """The tree for every lane."""
  return stack(lanes, [tree] * lanes.count)


def unstack(lanes: Lanes, tree: Any) -> list[Any]:
  """What `stack` was given, on the first device."""
  device = jax.devices()[0]
  host = jax.tree.map(lambda x: x if _is_key(x) else np.asarray(x), tree)
  return [
    jax.tree.map(lambda x: jax.device_put(x[i], device), host)
    for i in range(lanes.count)
  ]


def _is_key(x) -> bool:
  return jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)


def gather(found: Sequence[Mapping[str, Any]]) -> dict[str, tuple]:
  """Names of any lane -> their value in each, None where there is none."""
  names = {name: None for x in found for name in x}  # in order
  return {name: tuple(x.get(name) for x in found) for name in names}


def of_lane(scalars: Mapping[str, Any], i: int) -> dict[str, Any]:
  """What lane i has of them; a number without lanes is everyone's."""
  mine = {k: x[i] if np.ndim(x) else x for k, x in scalars.items()}
  return {name: x for name, x in mine.items() if x is not None}


class Writers:
  """metrics.Writer of every lane.

  after: the step that each lane was resumed after, or None; until it comes
  there it waits, and nothing of it is written.
  """

  def __init__(
    self, each: Sequence[metrics.Writer], after: Sequence[int | None]
  ):
    self._each, self._after = each, after

  def write(self, step: int, scalars: Mapping[str, Any], *, phase: str):
    for i, writer in self._there(step):
      writer.write(step, of_lane(scalars, i), phase=phase)

  def flush(self) -> None:
    for writer in self._each:
      writer.flush()

  def close(self) -> None:
    for writer in self._each:
      writer.close()

  def _there(self, step: int):
    return there(self._each, self._after, step)


class Checkpoints:
  """checkpoint.Checkpoints of every lane; after: as in Writers."""

  def __init__(
    self,
    lanes: Lanes,
    each: Sequence[checkpoint.Checkpoints],
    after: Sequence[int | None],
  ):
    self._lanes, self._each, self._after = lanes, each, after

  def save(self, step: int, state: Any, meta: dict[str, Any]) -> None:
    states = unstack(self._lanes, state)
    for i, one in there(self._each, self._after, step):
      one.save(step, states[i], meta)

  def close(self) -> None:
    for one in self._each:
      one.close()


def there(each: Sequence, after: Sequence[int | None], step: int):
  """(lane, its part) of the lanes that do not wait at this step."""
  for i, (one, at) in enumerate(zip(each, after, strict=True)):
    if at is None or step > at:
      yield i, one


class Progress(metrics.Progress):
  """Shows the means over the lanes."""

  def update(self, step: int, scalars: Mapping[str, Any]) -> None:
    some = {
      name: [v for v in np.atleast_1d(x) if v is not None]
      for name, x in scalars.items()
    }
    super().update(step, {k: float(np.mean(x)) for k, x in some.items()})
