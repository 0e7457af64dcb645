"""Storage benchmarks of `experiments.bench`: checkpoints and trajectories."""

import contextlib
import itertools
import tempfile
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import mesh
from agentrl.dataset import trajectory_store
from agentrl.dataset.trajectory import StoredTrajectory, make_turn
from agentrl.lab.bench.roofline import FLOAT, KernelWork
from agentrl.lab.bench.sampling import BenchCase, SamplingBenchSize
from agentrl.nn import transformer
from agentrl.runtime import checkpoint
from agentrl.types import Status

TURNS, TOKENS = 4, 30  # of a trajectory; of a context and of a message


@contextlib.contextmanager
def checkpoints(
  size: SamplingBenchSize, data: str
) -> Iterator[dict[str, BenchCase]]:
  """Saves parameters and Adam's moments, and updates them, which donates them.

  A step waits for `checkpoint_blocked`; `checkpoint_sealed` is how long the
  write goes on behind it. The numbers are random: nothing compresses them.
  """
  del data
  count = 3 * mesh.count(transformer.specs(size.shape))
  state, steps = (
    jax.random.normal(jax.random.key(0), (count,)),
    itertools.count(),
  )
  negate = jax.jit(jnp.negative, donate_argnums=0)

  def update():
    nonlocal state
    state = negate(state)
    return state

  def blocked():
    saves.save(next(steps), {'x': state}, {})
    return update()

  moved = (KernelWork(0, 2 * FLOAT * count),)
  with tempfile.TemporaryDirectory() as folder:
    saves = checkpoint.Checkpoints(f'{folder}/checkpoints', keep=1)
    calls = {'update': update, 'blocked': blocked, 'sealed': saves.wait}
    yield {
      f'checkpoint_{name}': BenchCase(
        f'{FLOAT * count / 1e9:.3g} GB', call, moved, {'saves': 1}
      )
      for name, call in calls.items()
    }
    saves.close()


@contextlib.contextmanager
def trajectories(
  size: SamplingBenchSize, data: str
) -> Iterator[dict[str, BenchCase]]:
  """Builds trajectory stores, and reads one of them at random."""
  del data
  count, names = 64 * size.batch, map(str, itertools.count())
  places = np.random.default_rng(1).integers(0, count, count).tolist()
  with tempfile.TemporaryDirectory() as folder:
    trajectory_store.build(synthetic(count), folder, 'read')
    store = trajectory_store.open_store(folder, 'read')
    calls = {
      'build': lambda: trajectory_store.build(
        synthetic(count), folder, next(names)
      ),
      'read': lambda: [store[i] for i in places],
    }
    yield {
      f'store_{name}': BenchCase(
        f'{count} of {TURNS} turns', call, (), {'trajectories': count}
      )
      for name, call in calls.items()
    }


def synthetic(count: int) -> Iterator[StoredTrajectory]:
  """Yields random trajectories."""
  r = np.random.default_rng(0)
  for i in range(count):
    turns = [
      make_turn(
        r.integers(0, 50_000, TOKENS),
        r.integers(0, 50_000, TOKENS),
        logp=-r.random(TOKENS),
        version=i // 64,
        entropy=r.random(),
        terms={'env': 0.0, 'tokens': TOKENS, 'progress': r.random()},
      )
      for _ in range(TURNS)
    ]
    yield StoredTrajectory(
      turns=tuple(turns),
      task=i // 8,
      group=i // 8 % 8,
      outcome=float(i % 2),
      status=Status.SOLVED if i % 2 else Status.FAILED,
      source='policy',
      step=i // 64,
      history='full',
      encoded=False,
    )
