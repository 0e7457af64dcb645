"""How a batch is dealt into minibatches."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh
from agentrl.learner import minibatch
from tests import batches, errors

EPOCHS, PARTS = 3, 4
STORY = batches.story(5, groups=4, members=4)
BATCH = batches.lay(STORY, 'turn', padding=2).batch
GROUP = np.asarray(BATCH.ids['group'])
UNITS = pytest.mark.parametrize('unit', minibatch.UNITS)


@functools.cache
def program(**how):
  return jax.jit(functools.partial(minibatch.minibatches, **how))


def deal(batch=BATCH, seed=0, epochs=EPOCHS, n=PARTS, **hp):
  """[epochs, n, N, T] bool"""
  batch = jax.tree.map(jnp.asarray, batch)
  masks = program(epochs=epochs, n=n, **hp)(batch, jax.random.key(seed))
  assert len(masks) == epochs * n
  return np.stack(masks).reshape(epochs, n, *batch.rows.traj.shape)


def members(masks, unit: str):
  """The units that hold weight in each of the masks: list of sets."""
  rows = BATCH.rows
  ids = {
    'row': np.broadcast_to(np.arange(len(rows.traj))[:, None], rows.traj.shape),
    'trajectory': rows.traj,
    'group': GROUP[rows.traj],
  }[unit]
  trained = rows.weight != 0
  return [set(ids[mask & trained].tolist()) for mask in masks]


@UNITS
def test_every_trained_token_is_in_one_minibatch_of_each_epoch(unit):
  trained = BATCH.rows.weight != 0
  count = deal(unit=unit).sum(axis=1)
  np.testing.assert_array_equal(count[:, trained], 1)


@UNITS
def test_units_are_not_split(unit):
  for epoch in deal(unit=unit):
    found = members(epoch, unit)
    assert sum(map(len, found)) == len(set.union(*found))


@UNITS
def test_minibatches_get_equally_many_units(unit):
  for epoch in deal(unit=unit):
    sizes = [len(x) for x in members(epoch, unit)]
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) > 0


def test_units_without_weight_take_no_place():
  """Half the trajectories lost their weight: the others are dealt evenly."""
  rows = BATCH.rows
  weight = np.where(rows.traj % 2 == 0, rows.weight, 0)
  half = BATCH.replace(rows=rows.replace(weight=weight))
  for epoch in deal(half, unit='trajectory'):
    sizes = [len(set(rows.traj[m & (weight != 0)].tolist())) for m in epoch]
    assert sum(sizes) == len(set(rows.traj[weight != 0].tolist()))
    assert max(sizes) - min(sizes) <= 1


@UNITS
def test_the_key_decides(unit):
  np.testing.assert_array_equal(deal(unit=unit), deal(unit=unit))
  assert np.any(deal(unit=unit) != deal(unit=unit, seed=1))


@UNITS
def test_epochs_differ(unit):
  first, second, third = (members(epoch, unit) for epoch in deal(unit=unit))
  assert first != second
  assert second != third


@UNITS
def test_a_mesh_changes_nothing(unit):
  want = deal(unit=unit)
  with jax.set_mesh(mesh.make({'fsdp': 2, 'tensor': 2})):
    shape = BATCH.rows.traj.shape
    placed = batches.place(BATCH, shape)
    run = program(epochs=EPOCHS, n=PARTS, unit=unit)
    masks = run(placed, jax.random.key(0))
  np.testing.assert_array_equal(np.stack(masks).reshape(want.shape), want)


def test_one_sub_update_takes_everything():
  (mask,) = deal(epochs=1, n=1).reshape(1, *BATCH.rows.traj.shape)
  assert mask.all()


def test_none_trains_nothing():
  assert minibatch.none(BATCH, jax.random.key(0)) == ()


def test_an_unknown_unit_is_named():
  with errors.raises(ValueError, 'unit turns'):
    deal(unit='turns')


def test_reverse_turns_takes_the_last_turns_first():
  """Turns 0 to 3 in two blocks: 2 and 3, then 0 and 1; every token once."""
  batch = jax.tree.map(jnp.asarray, BATCH)
  rows = BATCH.rows
  run = jax.jit(functools.partial(minibatch.reverse_turns, n=2))
  masks = np.stack(run(batch, jax.random.key(0)))
  assert rows.turn[rows.sampled].max() == 3
  for mask, block in zip(masks, ((2, 3), (0, 1)), strict=True):
    want = rows.sampled & np.isin(rows.turn, block)
    np.testing.assert_array_equal(mask, want)
  with jax.set_mesh(mesh.make({'fsdp': 2, 'tensor': 2})):
    placed = batches.place(BATCH, rows.traj.shape)
    found = run(placed, jax.random.key(0))
    np.testing.assert_array_equal(np.stack(found), masks)
