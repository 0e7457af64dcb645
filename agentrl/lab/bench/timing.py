"""Timing of calls: round by round, with medians and ranges."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np


class Spread(NamedTuple):
  """Seconds over the repeats, or a ratio of them."""

  median: float
  low: float
  high: float


def seconds(f: Callable, *args) -> float:
  """Times one call, until its results are there."""
  start = time.perf_counter()
  jax.block_until_ready(f(*args))
  return time.perf_counter() - start


def interleaved(
  calls: Mapping[str, Callable], repeats: int, warm: int = 2
) -> dict[str, list[float]]:
  """Times calls round by round: a noisy spell hits all.

  Args:
    warm: calls of each before: the first compiles, the second settles
  """
  for call in calls.values():
    for _ in range(warm):
      jax.block_until_ready(call())
  took: dict[str, list[float]] = {name: [] for name in calls}
  for _ in range(repeats):
    for name, call in calls.items():
      took[name].append(seconds(call))
  return took


def spread(seconds: Sequence[float]) -> Spread:
  return Spread(float(np.median(seconds)), min(seconds), max(seconds))


def ratio(seconds: Sequence[float], base: Sequence[float]) -> Spread:
  """Returns the ratio of the medians, and the range of the pairs of a round."""
  pairs = [x / y for x, y in zip(seconds, base, strict=True)]
  median = float(np.median(seconds) / np.median(base))
  return Spread(median, min(pairs), max(pairs))
