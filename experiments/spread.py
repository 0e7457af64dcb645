"""Where a run's arrays lie: split over the mesh, or whole on every device."""

import jax
from jax.sharding import NamedSharding, PartitionSpec

from agentrl import mesh


def sharded(f, donate=()):
  """jit of a function that makes a Batch: rows split over the mesh."""

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


def whole(f):
  """jit of a function whose result every process can read."""

  def run(*args):
    if not mesh.is_explicit():
      return f(*args)
    return jax.sharding.auto_axes(f, out_sharding=PartitionSpec())(*args)

  out = None
  if mesh.active() and not mesh.is_explicit():
    out = NamedSharding(jax.sharding.get_mesh(), PartitionSpec())
  return jax.jit(run, out_shardings=out)


def replicated(x):
  """Host arrays on every device of the mesh that is set."""
  if not mesh.active():
    return jax.device_put(x)
  whole = NamedSharding(jax.sharding.get_mesh(), PartitionSpec())
  return jax.device_put(x, whole)
