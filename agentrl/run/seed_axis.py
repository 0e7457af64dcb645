"""Seed axis: arrays [S, ...] of several seeds that train as one program.

Arrays of all seeds have the axis, laid out over the devices; where there is
one seed, there is no axis. Seeds never talk to each other, so each is the run
that it would have been alone. One that is ahead of the others, after a
restart, waits until they have come to its step; so a folder may have been
begun, or cut off, in any way.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from agentrl import mesh as mesh_lib
from agentrl.configs.config import Config
from agentrl.run import workdir as workdir_lib
from agentrl.types import TrainState

SPEC = PartitionSpec('seed')
FREE = ('seed', 'init')  # the fields of a config that may differ


class SeedAxis(NamedTuple):
  """S seeds, equally many on each device of the mesh; None: one, no axis."""

  seeds: int = 1  # S
  mesh: Mesh | None = None

  @property
  def vmapped(self) -> bool:
    """Returns whether seeds share a device."""
    return self.mesh is not None and self.seeds > self.mesh.size

  @property
  def shape(self) -> tuple[int, ...]:
    return (self.seeds,) if self.mesh else ()

  def map(self, f: Callable) -> Callable:
    """Lifts a function of one seed's arrays to arrays [S, ...] of all seeds.

    A seed that has a device to itself is not vmapped: its loops end and its
    branches are taken as if it were alone.
    """
    if not self.mesh:
      return f

    def local(*args):
      if self.vmapped:
        return jax.vmap(f)(*args)
      out = f(*jax.tree.map(lambda x: x[0], args))
      return jax.tree.map(lambda x: jnp.expand_dims(x, 0), out)

    # check_vma: every result differs from seed to seed, none is replicated.
    return jax.shard_map(
      local, mesh=self.mesh, in_specs=SPEC, out_specs=SPEC, check_vma=False
    )

  def jit(self, f: Callable) -> Callable:
    """Compiles `map(f)`; what one seed calls is compiled already."""
    return jax.jit(self.map(f)) if self.mesh else f

  def stack(self, trees: Sequence[Any]) -> Any:
    """Stacks the trees of all seeds into one of [S, ...], on their devices."""
    if not self.mesh:
      return trees[0]
    where = NamedSharding(self.mesh, SPEC)

    def join(*leaves):
      together = jnp.stack if _is_key(leaves[0]) else np.stack
      return jax.device_put(together(leaves), where)

    return jax.tree.map(join, *trees)

  def same(self, tree: Any) -> Any:
    """Stacks the same tree for every seed."""
    return self.stack([tree] * self.seeds)

  def unstack(self, tree: Any) -> list[Any]:
    """Undoes `stack`, on the first device."""
    if not self.mesh:
      return [tree]
    device = jax.devices()[0]
    host = jax.tree.map(lambda x: x if _is_key(x) else np.asarray(x), tree)
    parts = (self.seed(host, i) for i in range(self.seeds))
    return [jax.device_put(x, device) for x in parts]

  def seed(self, tree: Any, i: int) -> Any:
    """Returns the arrays of seed i."""
    return jax.tree.map(lambda x: x[i], tree) if self.mesh else tree

  def where_at_step(
    self, step: int, new: TrainState, old: TrainState
  ) -> TrainState:
    """Takes the new state where the old one is at the step; others wait."""
    if not self.mesh:
      return new
    here = old.step == step
    return jax.tree.map(lambda a, b: jnp.where(here, a, b), new, old)

  def gather(self, scalars: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Gathers names of any seed -> value in each, None where there is none."""
    if not self.mesh:
      return dict(scalars[0])
    names = dict.fromkeys(name for x in scalars for name in x)  # in order
    return {name: tuple(x.get(name) for x in scalars) for name in names}


def over_devices(count: int) -> SeedAxis:
  """Returns the axis over the most devices whose count divides the seeds."""
  if count == 1:
    return SeedAxis()
  devices = jax.devices()
  n = max(d for d in range(1, len(devices) + 1) if count % d == 0)
  return SeedAxis(count, Mesh(np.array(devices[:n]), ('seed',)))


def of_seed(scalars: Mapping[str, Any], i: int) -> dict[str, Any]:
  """Returns the scalars of seed i; a number without the axis is shared."""
  mine = {k: x[i] if np.ndim(x) else x for k, x in scalars.items()}
  return {name: x for name, x in mine.items() if x is not None}


def check(configs: Sequence[Config]) -> None:
  """Raises ValueError for configs that cannot train as one program."""
  first, *others = configs
  if not others:
    return
  for axis in mesh_lib.AXES:
    if (size := getattr(first.mesh, axis)) != 1:
      raise ValueError(
        f'mesh.{axis}={size} splits a run over devices, which runs'
        f' that go together have one each of; set mesh.{axis} to 1'
      )
  for c in others:
    for name, one, other in workdir_lib.differences(first, c):
      if name not in FREE or (name == 'init' and not (one and other)):
        raise ValueError(
          f'config.{name} is {one!r} in one run and {other!r} in another; runs'
          ' that go together differ in seed only, or in the init that all of'
          ' them have: run these apart'
        )


def _is_key(x) -> bool:
  return jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)
