"""Where arrays of a run lie: whole everywhere, or split by axes of a mesh."""

import functools
import math
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh
from agentrl.configs import grpo
from agentrl.run import placement
from agentrl.run.check import fields
from tests import batches


def test_a_config_of_one_device_needs_no_mesh():
  c = grpo.get_config('tiny')
  with placement.on_mesh(c):
    assert not mesh.active()
  c.mesh.fsdp = 2
  with placement.on_mesh(c):
    assert mesh.active()
    assert mesh.is_explicit() == c.mesh.explicit


@pytest.mark.parametrize('explicit', [False, True])
def test_host_arrays_come_to_every_device(explicit):
  x = np.arange(6)
  with jax.set_mesh(mesh.make({'fsdp': 2, 'tensor': 2}, explicit=explicit)):
    y = placement.replicated(x)
    assert len(y.sharding.device_set) == 4
    assert y.sharding.is_fully_replicated
    f = placement.jit_replicated_out(lambda x: 2 * x)
    assert f(y).sharding.is_fully_replicated
    np.testing.assert_array_equal(f(y), 2 * x)


def test_rows_of_a_batch_are_split_and_the_rest_is_not():
  laid = jax.tree.map(
    jnp.asarray, batches.lay(batches.story(), padding=3).batch
  )
  n = laid.rows.tokens.shape[0] // 2 * 2
  cut = jax.tree.map(lambda x: x[:n], laid.rows)
  batch = laid.replace(rows=cut)
  with jax.set_mesh(mesh.make({'fsdp': 2, 'tensor': 2}, explicit=True)):
    out = placement.sharded(lambda x: x)(placement.replicated(batch))
    assert not out.rows.tokens.sharding.is_fully_replicated
    assert out.outcome.sharding.is_fully_replicated
    for x, y in zip(jax.tree.leaves(out), jax.tree.leaves(batch), strict=True):
      np.testing.assert_array_equal(x, y)


def stale_config(devices, **mesh_axes):
  c = grpo.get_config('tiny')
  c.staleness.update(dict(bound=1, anchor='behaviour', devices=devices))
  c.mesh.update(mesh_axes)
  return fields.read(c)


@pytest.mark.parametrize(
  ('devices', 'axes'), [(0, {}), (1, {}), (2, {}), (4, {'data': 2, 'fsdp': 2})]
)
def test_samplers_have_copies_on_their_own_devices(devices, axes):
  c = stale_config(devices, **axes)
  with placement.on_mesh(c):
    where = placement.Samplers(c)
    own = math.prod(axes.values())
    free = jax.jit(lambda x: x + 1, donate_argnums=0)
    for i in range(20):  # what is published outlives what is donated
      params = placement.replicated(np.full(8, i, np.float32))
      copy = where.publish({'w': params, 'key': jax.random.key(i)})
      free(params)
      np.testing.assert_array_equal(copy['w'], i)
    used = {d.id for d in copy['w'].devices()}
    assert used == (
      set(range(own, own + devices)) if devices else set(range(own))
    )

    def collect(state, n):
      return {'x': jax.jit(lambda x: x * n)(state['w'])}, jnp.ones(())

    home = {d.id for d in placement.replicated(np.zeros(8)).devices()}
    made = []
    call = functools.partial(where.collector(collect), copy, 2)
    thread = threading.Thread(target=lambda: made.append(call()))
    thread.start()
    thread.join()
    [(batch, one)] = made
    np.testing.assert_array_equal(batch['x'], 38.0)
    for x in (batch['x'], one):
      assert {d.id for d in x.devices()} == home or not devices
