"""Batches of four steps, of one shape, for tests of memories."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from tests import batches

STORIES = [batches.story(seed, groups=3, members=3) for seed in range(4)]
B = 10


@functools.cache
def batch(step):
  """What step sampled; ids['task'] tells the trajectories of all steps apart.

  All stories have one shape: columns after the longest row hold nothing.
  """
  laid = batches.lay(STORIES[step], 'history')
  rows = laid.batch.rows
  wide = 44 - rows.traj.shape[1]

  def widen(x):
    fill = -1 if x.dtype == np.int32 else 0
    return np.pad(x, ((0, 0), (0, wide)), constant_values=fill)

  made = laid.batch.replace(
    rows=jax.tree.map(widen, rows),
    ids={
      **laid.batch.ids,
      'task': np.arange(B, dtype=np.int32) + B * step,
      'source': np.zeros(B, np.int32),
      'age': np.zeros(B, np.int32),
    },
  )
  return jax.tree.map(jnp.asarray, made)


def back(grown):
  """Task ids of what came back."""
  real = np.asarray(grown.turns.valid[B:].any(1))
  return np.asarray(grown.ids['task'][B:])[real].tolist()
