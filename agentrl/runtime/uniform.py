"""Draws of hosts: functions of their arguments alone, on any machine.

All is made of Philox's raw words, which NumPy promises not to change (unlike
what a `Generator` makes of them).
"""

import enum
import math

import numpy as np


class UniformStream(enum.IntEnum):
  """What is drawn; each has numbers of its own."""

  TASKS = 0  # which tasks are attempted
  LENGTHS = 1  # of prefixes
  PLACES = 2  # which trajectory a prefix is of
  ERRORS = 3  # of an expert
  NOTES = 4  # what groups read of a memory


def draw(
  seed: int, step: int, shape: tuple[int, ...], stream: UniformStream
) -> np.ndarray:
  """Draws uniform numbers on (0, 1), f64 of this shape."""
  philox = np.random.Philox(key=[seed, step], counter=[0, 0, 0, stream])
  words = np.asarray(philox.random_raw(math.prod(shape)))
  return ((words >> np.uint64(11)) + 0.5).reshape(shape) / 2**53


def permutation(n: int, *seeds: int) -> np.ndarray:
  """Returns a permutation of 0..n-1, [n] i64."""
  words = np.random.Philox(np.random.SeedSequence(seeds)).random_raw(n)
  return np.argsort(words, kind='stable')
