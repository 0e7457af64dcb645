"""Task sets of jit environments: built once, stored, read in a fixed order."""

import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import tensorflow_datasets as tfds

from agentrl.dataset import tfds_store
from agentrl.runtime import uniform

# TFDS stores 64-bit floats as 32-bit ones, and cannot read its byte encodings
# without TensorFlow, so this is what comes back with the same bits.
DTYPES = (
  *map(np.dtype, ('bool', 'float16', 'float32', 'uint8', 'uint16')),
  *map(np.dtype, ('int8', 'int16', 'int32', 'int64')),
)


class Solved(Protocol):
  """A task with a demonstration that solves it (`env.base.SolvedTask`)."""

  task: Mapping[str, np.ndarray]
  actions: Sequence[int]
  key: str


@dataclasses.dataclass(frozen=True)
class JitTaskSet:
  """n tasks with one solution each; n and A > 0."""

  tasks: dict[str, np.ndarray]  # [n, ...] each, what `reset` takes
  actions: np.ndarray  # [n, A] i32, the solutions, -1 after their end
  keys: list[str]  # n, equal for equal tasks

  def __len__(self) -> int:
    return len(self.keys)


def load(
  source: tfds_store.Source,
  split: str,
  count: int,
  seed: int,
  *,
  folder: str | os.PathLike[str],
) -> JitTaskSet:
  """Loads `count` tasks of the source, built into `folder` if not there yet.

  Raises:
    ValueError: as `tfds_store.load`; tasks have arrays of one shape.
  """
  examples = tfds_store.load(
    source, split, count, seed, folder=folder, encode=encode_arrays
  )
  return JitTaskSet(
    tasks={
      name: np.stack([example['task'][name] for example in examples])
      for name in examples[0]['task']
    },
    actions=np.stack([example['actions'] for example in examples]),
    keys=[example['key'] for example in examples],
  )


def encode_arrays(examples: Sequence[Solved]) -> tfds_store.Records:
  """Encodes records of tasks that are arrays, actions padded with -1.

  Raises:
    ValueError: if arrays differ in names, shapes or dtypes between examples,
      or have a dtype that would not come back exactly.
  """
  tasks = [
    {name: np.asarray(x) for name, x in example.task.items()}
    for example in examples
  ]
  for name, x in tasks[0].items():
    if x.dtype not in DTYPES:
      raise ValueError(
        f'task array {name!r} is {x.dtype}, which is not stored exactly; use '
        f'one of {", ".join(map(str, DTYPES))}'
      )
  want = {name: (x.shape, str(x.dtype)) for name, x in tasks[0].items()}
  size = max(1, *(len(example.actions) for example in examples))
  rows = []
  for index, (example, task) in enumerate(zip(examples, tasks, strict=True)):
    have = {name: (x.shape, str(x.dtype)) for name, x in task.items()}
    if have != want:
      raise ValueError(
        f'task {index} ({example.key}) has arrays {have} but task 0 has '
        f'{want}; pad them to one shape and dtype'
      )
    n = len(example.actions)
    actions = np.full(size, -1, np.int32)
    actions[:n] = example.actions
    row = {'task': task, 'actions': actions, 'n_actions': np.int32(n)}
    rows.append(row | {'key': example.key})
  features = {
    'task': {
      name: tfds.features.Tensor(shape=x.shape, dtype=x.dtype)
      for name, x in tasks[0].items()
    },
    'actions': tfds.features.Tensor(shape=(size,), dtype=np.int32),
    'n_actions': tfds.features.Tensor(shape=(), dtype=np.int32),
    'key': tfds.features.Text(),
  }
  return features, rows


def epoch_order(n: int, seed: int, step: int, batch: int) -> np.ndarray:
  """Returns which of n tasks optimizer step `step` reads: [batch] i64.

  Steps read positions step * batch, ... of an endless list of permutations of
  0..n-1, one for each epoch, drawn from (seed, epoch). So every task comes
  exactly once an epoch, batches may straddle epochs, and a resumed run needs
  the step only.
  """
  for what, value, least in (
    ('n', n, 1),
    ('seed', seed, 0),
    ('step', step, 0),
    ('batch', batch, 1),
  ):
    if value < least:
      raise ValueError(f'{what} {value} is too small; use {least} or more')
  return epoch_positions(n, seed, step * batch + np.arange(batch))


def epoch_positions(n: int, seed: int, position: np.ndarray) -> np.ndarray:
  """Returns what stands at positions [m] of the list of permutations."""
  epoch = position // n
  orders = {e: _permutation(n, seed, e) for e in np.unique(epoch).tolist()}
  return np.array(
    [orders[e][p] for e, p in zip(epoch.tolist(), position % n, strict=True)]
  )


@functools.lru_cache(maxsize=4)  # an epoch has many steps
def _permutation(n: int, seed: int, epoch: int) -> np.ndarray:
  order = uniform.permutation(n, seed, epoch)
  order.flags.writeable = False
  return order
