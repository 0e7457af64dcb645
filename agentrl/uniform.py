"""Uniform numbers of a host, functions of (seed, step, stream) alone."""

import enum
import math

import numpy as np


class UniformStream(enum.IntEnum):
  """What is drawn; each has numbers of its own."""

  TASKS = 0  # which tasks are attempted
  LENGTHS = 1  # of prefixes
  PLACES = 2  # which trajectory a prefix is of
  ERRORS = 3  # of an expert


def draw(
  seed: int, step: int, shape: tuple[int, ...], stream: UniformStream
) -> np.ndarray:
  """Uniform numbers on (0, 1), f64 of this shape, the same on any machine.

  Philox's raw words, which NumPy promises not to change (unlike what a
  `Generator` makes of them).
  """
  philox = np.random.Philox(key=[seed, step], counter=[0, 0, 0, stream])
  words = np.asarray(philox.random_raw(math.prod(shape)))
  return ((words >> np.uint64(11)) + 0.5).reshape(shape) / 2**53
