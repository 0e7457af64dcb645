"""Task sets: built once from a source, found again, read in a fixed order."""

import dataclasses
import functools
import os
import re
import time
from collections.abc import Iterator
from itertools import islice
from typing import Protocol

import numpy as np
from absl import logging

from agentrl.dataset import progress, tfds_store


class Source(Protocol):
  """What makes solved tasks (`env.base.TaskSource`)."""

  def name(self) -> str:
    """Filesystem-safe, with a hash of every setting that changes a task."""

  def solved(
    self, split: str, count: int, seed: int
  ) -> Iterator[tfds_store.Solved]:
    """Up to `count` solved tasks, the same ones for the same arguments."""


@dataclasses.dataclass(frozen=True)
class TaskSet:
  """n tasks with one solution each; n and A > 0."""

  tasks: dict[str, np.ndarray]  # [n, ...] each, what `reset` takes
  actions: np.ndarray  # [n, A] i32, the solutions, -1 after their end
  keys: list[str]  # n, equal for equal tasks

  def __len__(self) -> int:
    return len(self.keys)


def load(
  source: Source,
  split: str,
  count: int,
  seed: int,
  *,
  folder: str | os.PathLike[str],
) -> TaskSet:
  """`count` tasks of the source; built into `folder` if they are not there.

  When they are there the source is only asked its name. Safe if several
  processes do it at once, or one is killed meanwhile.

  Raises:
    ValueError: if an argument is wrong, the source has fewer tasks, they are
      of different shapes, or the files are damaged.
  """
  config = _config(source, split, count, seed)
  if not tfds_store.location(folder, config).is_dir():
    _build(source, split, count, seed, config, folder)
  examples = tfds_store.read(split=split, config=config, folder=folder)
  return TaskSet(
    tasks={
      name: np.stack([example['task'][name] for example in examples])
      for name in examples[0]['task']
    },
    actions=np.stack([example['actions'] for example in examples]),
    keys=[example['key'] for example in examples],
  )


def _config(source: Source, split: str, count: int, seed: int) -> str:
  if split not in ('train', 'test'):
    raise ValueError(f"split {split!r} is unknown; use 'train' or 'test'")
  if count < 1:
    raise ValueError(f'count {count} asks for no task; ask for at least 1')
  if seed < 0:
    raise ValueError(f'seed {seed} is negative; use 0 or more')
  name = source.name()
  if not re.fullmatch(r'[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}', name):
    raise ValueError(
      f'source name {name!r} is no folder name; use up to 200 letters, '
      "digits, '_', '-' and '.'"
    )
  return f'{name}-{split}-{count}-{seed}'


def _build(source, split, count, seed, config, folder) -> None:
  start = time.monotonic()
  tasks = islice(source.solved(split, count, seed), count)
  what = f'Built %d of {count} {split} tasks of {source.name()}'
  solved = list(progress.logged(tasks, what))
  if len(solved) < count:
    raise ValueError(
      f'{source.name()} has {len(solved)} solvable {split} tasks but {count} '
      'were asked for; ask for fewer or widen its settings'
    )
  os.makedirs(folder, exist_ok=True)
  tfds_store.write(solved, split=split, config=config, folder=folder)
  logging.info(
    'Built %d %s tasks of %s in %.1f s.',
    *(count, split, source.name(), time.monotonic() - start),
  )


def epoch_order(n: int, seed: int, step: int, batch: int) -> np.ndarray:
  """Which of n tasks optimizer step `step` reads: [batch] i64.

  Steps read positions step * batch, ... of an endless list of permutations of
  0..n-1, one for each epoch, drawn from (seed, epoch). So every task comes
  exactly once an epoch, batches may straddle epochs, and a resumed run needs
  the step only. The order is that of Philox's raw words, which NumPy promises
  not to change (unlike `Generator.permutation`).
  """
  for what, value, least in (
    ('n', n, 1),
    ('seed', seed, 0),
    ('step', step, 0),
    ('batch', batch, 1),
  ):
    if value < least:
      raise ValueError(f'{what} {value} is too small; use {least} or more')
  position = step * batch + np.arange(batch)
  epoch = position // n
  orders = {e: _permutation(n, seed, e) for e in np.unique(epoch).tolist()}
  return np.array(
    [orders[e][p] for e, p in zip(epoch.tolist(), position % n, strict=True)]
  )


@functools.lru_cache(maxsize=4)  # an epoch has many steps
def _permutation(n: int, seed: int, epoch: int) -> np.ndarray:
  words = np.random.Philox(np.random.SeedSequence([seed, epoch])).random_raw(n)
  order = np.argsort(words, kind='stable')
  order.flags.writeable = False
  return order
