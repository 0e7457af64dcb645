"""Placement of a run's arrays: sharded over the mesh, or replicated."""

import contextlib

import jax
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from agentrl import mesh
from agentrl.rollout import stale


def on_mesh(c):
  """Returns the context in which everything of this config runs."""
  shape = mesh.shape_of(c.mesh)
  if all(n == 1 for n in shape.values()):
    return contextlib.nullcontext()
  return jax.set_mesh(mesh.make(shape, explicit=c.mesh.explicit))


def sharded(f, donate=()):
  """Jits a function that makes a Batch: rows split over the mesh."""

  def run(*args):
    if not mesh.is_explicit():
      return f(*args)
    whole = jax.sharding.auto_axes(f, out_sharding=PartitionSpec())
    shapes = jax.eval_shape(whole, *args)
    specs = jax.tree.map(lambda x: PartitionSpec(), shapes)
    split = {
      name: jax.tree.map(lambda x: mesh.spec('batch'), vars(shapes)[name])
      for name in ('rows', 'readings')
    }
    specs = specs.replace(**split)
    return jax.sharding.auto_axes(f, out_sharding=specs)(*args)

  return jax.jit(run, donate_argnums=donate)


def jit_replicated_out(f):
  """Jits a function whose result every process can read."""

  def run(*args):
    if not mesh.is_explicit():
      return f(*args)
    return jax.sharding.auto_axes(f, out_sharding=PartitionSpec())(*args)

  out = None
  if mesh.active() and not mesh.is_explicit():
    out = NamedSharding(jax.sharding.get_mesh(), PartitionSpec())
  return jax.jit(run, out_shardings=out)


def replicated(x):
  """Puts host arrays on every device of the mesh that is set."""
  if not mesh.active():
    return jax.device_put(x)
  whole = NamedSharding(jax.sharding.get_mesh(), PartitionSpec())
  return jax.device_put(x, whole)


def local_mesh():
  """Enters this process's own part of the mesh, if others have some.

  What is computed there waits for no other process.
  """
  return jax.set_mesh(_own()) if _shared() else contextlib.nullcontext()


def to_local_mesh(tree):
  """Moves global arrays to the mesh of this process's local devices.

  They are split as before along mesh axes that lie within one process, and
  whole along the others. Every process must call it.
  """
  if not _shared() or all(
    x.is_fully_addressable for x in jax.tree.leaves(tree)
  ):
    return tree
  every, own = jax.sharding.get_mesh(), _own()

  def within(x) -> PartitionSpec:
    def local(axes):
      axes = (axes,) if isinstance(axes, str) else axes or ()
      return tuple(a for a in axes if own.shape[a] == every.shape[a]) or None

    return PartitionSpec(*map(local, x.sharding.spec))

  def bring(x, spec):
    pieces = [s.data for s in x.addressable_shards]
    place = NamedSharding(own, spec)
    return jax.make_array_from_single_device_arrays(x.shape, place, pieces)

  specs = jax.tree.map(within, tree)
  places = jax.tree.map(lambda spec: NamedSharding(every, spec), specs)
  moved = jax.jit(lambda x: x, out_shardings=places)(tree)
  return jax.tree.map(bring, moved, specs)


class Samplers:
  """Where batches are collected beside the updates: placed and brought back.

  On devices of their own, behind those of the run's mesh, if the config sets
  some aside; else on the run's own. Made inside of `on_mesh`.
  """

  def __init__(self, c):
    home = jax.sharding.get_mesh() if mesh.active() else None
    self._home: Mesh | jax.Device = home or jax.devices()[0]
    self._own: Mesh | jax.Device | None = None
    if not c.staleness.devices:
      return
    first = home.size if home else 1
    own = jax.devices()[first : first + c.staleness.devices]
    self._own = own[0]
    if home or len(own) > 1:
      self._own = mesh.make(
        {'data': len(own)}, explicit=c.mesh.explicit, devices=own
      )

  def context(self) -> contextlib.AbstractContextManager:
    """Returns the context, of the thread that enters it, in which they work."""
    if self._own is None:
      return contextlib.nullcontext()
    if isinstance(self._own, Mesh):
      return jax.set_mesh(self._own)
    return jax.default_device(self._own)

  def publish(self, tree):
    """Copies arrays of the run to the samplers; the run may free its own."""
    return stale.copy(tree) if self._own is None else _moved(tree, self._own)

  def collector(self, collect):
    """Returns what collects there, and brings batches to the run's devices."""
    if self._own is None:
      return collect

    def run(*args, **more):
      with self.context():
        return _moved(collect(*args, **more), self._home)

    return run


class Jobs:
  """Batches of jobs, which have devices of their own; made in `on_mesh`."""

  def publish(self, tree):
    """Copies arrays of the run, which may free its own; every process must.

    Where the run has several processes, to the host.
    """
    return _gathered(tree) if jax.process_count() > 1 else stale.copy(tree)

  def collector(self, collect):
    """Returns what collects, and brings batches to the run's devices."""
    at_home = jax.sharding.get_mesh() if mesh.active() else None

    def run(*args):
      batch, metrics = collect(*args)
      if jax.process_count() > 1:  # each brings it to its own
        return batch, metrics
      with jax.set_mesh(at_home) if at_home else contextlib.nullcontext():
        return self.place(batch), metrics

    return run

  def place(self, batch):
    """Puts a batch of host arrays on the mesh, its rows split over it."""
    if not mesh.active():
      return jax.device_put(batch)
    split = {}
    for name in ('rows', 'readings'):
      rows = NamedSharding(jax.sharding.get_mesh(), mesh.spec('batch'))
      split[name] = jax.device_put(vars(batch)[name], rows)
    return replicated(batch.replace(rows=None, readings=None)).replace(**split)


def _gathered(tree):
  """Brings global arrays whole to the host of each process."""

  def gather(x):
    if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
      return jax.random.wrap_key_data(gather(jax.random.key_data(x)))
    return multihost_utils.process_allgather(x, tiled=True)

  return jax.tree.map(gather, tree)


def _moved(tree, place: Mesh | jax.Device):
  """Moves arrays to a mesh, split as they are; or whole to a device."""

  def move(x):
    named = isinstance(x, jax.Array) and isinstance(x.sharding, NamedSharding)
    if not isinstance(place, Mesh):  # explicit axes leave a mesh by the host
      return jax.device_put(jax.device_get(x) if named else x, place)
    spec = x.sharding.spec if named else PartitionSpec()
    return jax.device_put(x, NamedSharding(place, spec))

  return jax.tree.map(move, tree)


def _shared() -> bool:
  return jax.process_count() > 1 and mesh.active()


def _own() -> Mesh:
  every = jax.sharding.get_mesh()
  own = every.local_mesh.devices
  return Mesh(own, every.axis_names, axis_types=every.axis_types)
