"""Pace of collecting beside the updates: which bound, depth and split to take.

A batch takes C seconds to collect and U to train on; d batches are collected
at a time, which do not slow each other: they wait for environments. Batch n
begins once n − S updates are done (`rollout/tickets`), so that a step takes

  T(S) = max(U, C / d, (C + U) / (S + 1)),   T(0) = C + U

Its least value, U, wants d >= C / U and S >= C / U.

Where devices are the bottleneck, C and U fall with their number: u = U m and
c = C k device-seconds on m and k devices. One batch is collected at a time,
and from S = 1 on L of D devices that learn make T = max(u / L, c / (D − L)).
Everything on all D devices takes (u + c) / D, which no split is below; one
pays where something does not fall with the number of devices.
"""

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agentrl.log import metrics
from agentrl.run import workdir

LEAST = 1e-6  # seconds of an update, which a clock cannot tell from none
STEPS = 50  # last ones of a run, whose median is measured


class Pace(NamedTuple):
  """Seconds of a batch."""

  collect: float  # C
  update: float  # U


class Split(NamedTuple):
  """Devices that learn and that collect, and seconds of a step on them."""

  learn: int
  collect: int
  seconds: float


def depth(pace: Pace) -> int:
  """Computes the least S, and d, with which the learner never waits."""
  return math.ceil(pace.collect / pace.update)


def seconds(pace: Pace, bound: int, depth: int) -> float:
  """Computes T(S), the seconds of a step once the first batches are there."""
  both = pace.collect + pace.update
  if not bound:
    return both
  return max(pace.update, pace.collect / depth, both / (bound + 1))


def split(learn: float, collect: float, devices: int) -> Split:
  """Computes the split of two or more devices with the least T.

  At L = D u / (u + c) both sides take as long; of the whole numbers beside it
  one is best, as T falls below and rises above it.

  Args:
    learn, collect: u and c, device-seconds of a batch
  """
  even = devices * learn / (learn + collect)
  near = {min(max(f(even), 1), devices - 1) for f in (math.floor, math.ceil)}
  tried = [
    Split(n, devices - n, max(learn / n, collect / (devices - n)))
    for n in sorted(near)
  ]
  return min(tried, key=lambda x: x.seconds)


def read(text: str) -> Pace:
  """Reads '30,10', seconds to collect and to train, or measures a run folder.

  Raises:
    ValueError: it is neither, or the run did not collect in threads.
  """
  numbers = re.fullmatch(r'([\d.e+-]+),([\d.e+-]+)', text)
  if not numbers:
    workdir.read_config(text)  # says what is not the folder of a run
    return measured(metrics.read(os.path.join(text, metrics.FILE)))
  try:
    pace = Pace(*map(float, numbers.groups()))
  except ValueError:
    pace = Pace(0.0, 0.0)
  if not all(math.isfinite(x) and x > 0 for x in pace):
    raise ValueError(
      '--measured must be a run folder, or two numbers of seconds > 0 such as'
      f' 30,10, got {text!r}'
    )
  return pace


def measured(rows: Sequence[Mapping[str, Any]]) -> Pace:
  """Measures the pace of a run by its metrics: medians of its last steps.

  An update takes what a step does less the wait for its batch.

  Raises:
    ValueError: it did not collect in threads, or for too few steps.
  """
  names = 'time/seconds', 'time/collect_seconds', 'time/wait_seconds'
  told = [
    [row[x] for x in names]
    for row in rows
    if row.get('phase') == 'rl' and all(row.get(x) is not None for x in names)
  ]
  if len(told) < 3:
    raise ValueError(
      '--measured must be a run of 3 RL steps or more whose batches were'
      f' collected in threads, got {len(told)} with time/collect_seconds; set'
      ' staleness.depth in the run, or give the seconds themselves'
    )
  clock, collect, wait = np.array(told[-STEPS:], float).T
  update = float(np.median(np.diff(clock) - wait[1:]))
  return Pace(float(np.median(collect)), max(update, LEAST))


def lines(
  pace: Pace, *, learners: int, collectors: int, devices: int
) -> Iterator[str]:
  """Yields what to set, and what it would give.

  Args:
    learners, collectors: devices on which the pace was measured
    devices: to split
  """
  most, alone = depth(pace), seconds(pace, 0, 0)
  yield (
    f'{pace.collect:.3g} s to collect a batch, {pace.update:.3g} s to train on'
    ' it. If batches that'
  )
  yield '  are collected at a time do not slow each other:'
  yield '  staleness.bound, depth   s a step   steps/s'
  for bound in sorted({0, *(2**i for i in range(9)), most}):
    if bound <= most:
      took = seconds(pace, bound, bound)
      yield f'  {bound:>22} {took:>10.3g} {alone / took:>8.2f}x'
  yield f'The learner does not wait from staleness.bound={most} on.'
  if devices > 1:
    u, c = pace.update * learners, pace.collect * collectors
    best, every = split(u, c, devices), (u + c) / devices
    yield 'If both get faster by the number of devices, the best split of'
    yield (
      f'  {devices} is {best.learn} that learn and'
      f' staleness.devices={best.collect}: {best.seconds:.3g} s a step,'
    )
    share = every / best.seconds
    yield f'  {share:.2f}x the steps/s of bound 0 on all of them; it pays where'
    yield '  more devices do not collect faster.'
