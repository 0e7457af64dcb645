"""agentrl.testing.batches, and the same on meshes of simulated devices."""

import jax
import numpy as np
import pytest

from agentrl import mesh
from agentrl.testing.batches import (
  LAYOUTS,
  TOKEN_FIELDS,
  Laid,
  Story,
  flat,
  lay,
  links,
  loss,
  read,
  story,
  stream,
)

__all__ = [
  'LAYOUTS',
  'TOKEN_FIELDS',
  'Laid',
  'Story',
  'flat',
  'lay',
  'links',
  'loss',
  'read',
  'story',
  'stream',
]
# Packed rows have every difficulty of the others: turns of one trajectory in
# several rows, and several trajectories in one.
BY_DAY = (
  'packed',
  *(pytest.param(x, marks=pytest.mark.nightly) for x in ('history', 'turn')),
)
# Compiled for a mesh once more, which takes as long as the rest of a module.
EXPLICIT = pytest.param('explicit', marks=pytest.mark.nightly)


def on_a_mesh(f, args, shape, explicit=True):
  """f(*args), on the host, of four devices; `place` says who has what."""
  with jax.set_mesh(mesh.make({'fsdp': 2, 'tensor': 2}, explicit=explicit)):
    return jax.device_get(jax.jit(f)(*place(args, shape)))


def place(tree, shape):
  """Arrays [N, T, ...] along the data axis of the mesh, others everywhere."""

  def put(x):
    spec = mesh.spec('batch') if np.shape(x)[:2] == shape else jax.P()
    return jax.device_put(x, jax.NamedSharding(jax.sharding.get_mesh(), spec))

  return jax.tree.map(put, tree)
