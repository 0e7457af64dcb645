"""Metrics writer: metrics.jsonl and TensorBoard.

`metrics.jsonl` holds one strict JSON object per step and is the truth; the
event files repeat its finite numbers. Rows are ordered by the global step; a
row of phase 'eval' may follow the training row of the same step.
"""

import bisect
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from absl import logging

from agentrl.log import events, shards
from agentrl.log.wandb_tracker import Tracker
from agentrl.runtime import storage

FILE = 'metrics.jsonl'
NAMES = ('phase', 'stage')  # of a row; the rest of it are numbers
_WORDS = {'nan': math.nan, 'inf': math.inf, '-inf': -math.inf}


class MetricsWriter:
  """Writes a run's rows and event files below `workdir`.

  Every row reaches the operating system before `write` returns, so SIGKILL
  costs at most a torn last line, which the next start cuts off (in a bucket:
  see storage.Appender). Rows not written before a checkpoint would be missing
  after a restart: drain `DelayedFetch` and call `flush` before saving.
  """

  def __init__(
    self,
    workdir: str | os.PathLike,
    *,
    resume_after: int | None,
    header: Mapping[str, Any],
    active: bool = True,
    tracker: Tracker | None = None,
    check: Callable[[], None] = lambda: None,
  ):
    """Opens the files; with `active=False` (process > 0) never does anything.

    Args:
      workdir: holds metrics.jsonl, header.json, tensorboard/.
      resume_after: step of the restored checkpoint; later rows are cut off.
        None starts a new file; an old one is kept under another name.
      header: facts about the run, JSON values, written to header.json.
      tracker: gets every finite number too, and is closed with the writer.
      check: raises if this process may no longer write in the folder
    """
    self._active = active
    if not active:
      return
    self._tracker, self._check = tracker, check
    self._workdir = storage.path(workdir)
    self._workdir.mkdir(parents=True, exist_ok=True)
    self._path = self._workdir / FILE
    self._last = _cut(self._path, resume_after)
    size = storage.size_of(self._path) if self._path.exists() else 0
    self._file = storage.Appender(self._path, size)
    text = json.dumps(shards.strict(header), indent=2, allow_nan=False)
    storage.write(self._workdir / 'header.json', text + '\n')
    after = -1 if resume_after is None else resume_after
    self._events = events.EventWriter(self._workdir, resume_after=after)

  def write(
    self,
    step: int,
    scalars: Mapping[str, float],
    *,
    phase: str,
    stage: str = '',
  ) -> None:
    """Appends one row; `phase` is 'sft', 'rl' or 'eval'.

    Args:
      stage: name of the step's stage; '': as the phase

    Raises:
      ValueError: a step not after the last one, or a value that is not a
        number.
    """
    if not self._active:
      return
    order = (step, phase == 'eval')
    if order <= self._last:
      raise ValueError(
        f'step must be after {self._last[0]}, the last one in {self._path}, got'
        f' {step} ({phase}); steps are global and increase'
      )
    numbers = {name: _number(name, value) for name, value in scalars.items()}
    row = {'step': int(step), 'phase': phase}
    row |= {'stage': stage} if stage else {}
    row |= numbers
    self._check()
    line = json.dumps(shards.strict(row), allow_nan=False) + '\n'
    self._file.write(line.encode())
    self._last = order
    finite = {name: x for name, x in numbers.items() if math.isfinite(x)}
    for name, value in finite.items():
      self._events.scalar(name, value, step)
    if self._tracker:
      self._tracker.add(step, finite)

  def evaluated(self, step: int) -> bool:
    """Returns whether the evaluation at this step has a row, or is past."""
    return not self._active or self._last >= (step, True)

  def flush(self) -> None:
    """Returns when the rows are on disk; event files may lag a little."""
    if self._active:
      self._file.flush()
      self._events.flush()

  def close(self) -> None:
    """Flushes and closes; the writer cannot be used afterwards."""
    if self._active:
      self.flush()
      self._file.close()
      self._events.close()
      if self._tracker:
        self._tracker.close()
      self._active = False


class Line(NamedTuple):
  """Line of a metrics.jsonl; `fault` says why it is not a row."""

  number: int
  row: dict[str, Any]
  fault: str
  data: bytes


def read(path: str | os.PathLike) -> list[dict[str, Any]]:
  """Reads the rows of a metrics.jsonl, without a torn last line.

  Raises:
    ValueError: an earlier line is not a row; names its number.
  """
  rows = []
  for line in _lines(storage.path(path)):
    if line.fault:
      raise ValueError(
        f'{path} line {line.number} {line.fault}; remove that line by hand, or'
        ' repeat the command of the run, which resumes without it'
      )
    rows.append(line.row)
  return rows


def repair(path: storage.Path, resume_after: int | None = None) -> None:
  """Cuts off the rows after a step and removes malformed lines.

  A file with malformed lines is kept under another name.
  """
  lines = list(_lines(path))
  faults = {line.number: line.fault for line in lines if line.fault}
  rows = [line for line in lines if not line.fault]
  ordered = _ascending([_order(line.row) for line in rows])
  for i in set(range(len(rows))) - ordered:
    faults[rows[i].number] = 'is out of order'
  end = math.inf if resume_after is None else resume_after
  good = [
    line.data
    for line in lines
    if line.number not in faults and line.row['step'] <= end
  ]
  if faults:
    number, fault = min(faults.items())
    more = f' ({len(faults)} such lines)' if len(faults) > 1 else ''
    storage.copy_aside(path, f'line {number} {fault}{more} and is left out')
    storage.write(path, b''.join(good))
  else:
    storage.truncate(path, sum(map(len, good)))


def _lines(path: storage.Path) -> Iterator[Line]:
  """Yields all lines but a torn last one."""
  storage.check_regular(path)
  lines = path.read_bytes().splitlines(keepends=True)
  for i, data in enumerate(lines):
    if i == len(lines) - 1 and not data.endswith(b'\n'):
      return
    row, fault = _parsed(data)
    yield Line(i + 1, row, fault, data)


def _parsed(data: bytes) -> tuple[dict[str, Any], str]:
  """Parses a line; returns its row, and the fault if it is not one."""
  try:
    row = json.loads(data)
  except (ValueError, RecursionError) as error:
    return {}, f'must be JSON ({error})'
  if not isinstance(row, dict):
    return {}, 'must be a JSON object'
  step = row.get('step')
  if isinstance(step, bool) or not isinstance(step, int) or step < 0:
    return {}, f'must have a whole number as step, got {step!r}'
  if row.get('phase') not in shards.PHASES:
    return {}, f'must have a known phase, got {row.get("phase")!r}'
  row = {
    k: _WORDS.get(v, v) if isinstance(v, str) and k not in NAMES else v
    for k, v in row.items()
  }
  odd = [k for k, v in row.items() if k not in NAMES and not _is_number(v)]
  return row, f'must have a number as {odd[0]!r}' if odd else ''


def _ascending(orders: list[tuple[int, bool]]) -> set[int]:
  """Returns the places of the longest strictly ascending subsequence.

  So a single line with a wrong step does not invalidate the others.
  """
  ends: list[int] = []  # the place with the least order that ends each length
  before: dict[int, int | None] = {}
  for i, order in enumerate(orders):
    length = bisect.bisect_left(ends, order, key=orders.__getitem__)
    before[i] = ends[length - 1] if length else None
    ends[length : length + 1] = [i]
  places: set[int] = set()
  place = ends[-1] if ends else None
  while place is not None:
    places.add(place)
    place = before[place]
  return places


def _is_number(x: Any) -> bool:
  return isinstance(x, float | int) and not isinstance(x, bool)


def _order(row: Mapping[str, Any]) -> tuple[int, bool]:
  """Orders rows by step, training before evaluation."""
  return row['step'], row['phase'] == 'eval'


def _cut(path: storage.Path, resume_after: int | None) -> tuple[int, bool]:
  """Cuts off the rows after a step; returns the order of the last one."""
  last = (-1, True)
  if path.is_dir():
    storage.set_aside(path, 'must be a file')
  if not path.exists():
    if resume_after is not None:
      logging.warning('%s is missing: earlier rows are lost', path)
    return last
  if resume_after is None:
    if storage.size_of(path):  # it had no checkpoint to go on from
      there = storage.free(path, 'metrics.{1}.jsonl')
      storage.rename(path, there)
      logging.warning('a new run starts: the old %s is now %s', path, there)
    return last
  repair(path, resume_after)
  rows = read(path)
  last = _order(rows[-1]) if rows else last
  if last[0] < resume_after:
    logging.warning(
      '%s ends at step %d: rows up to %d are lost', path, last[0], resume_after
    )
  return last


def _number(name: str, value: Any) -> float | int:
  if name in ('step', *NAMES):
    raise ValueError(f'{name!r} is an argument of write, not a scalar')
  if isinstance(value, np.generic):
    value = value.item()
  if isinstance(value, bool) or not isinstance(value, float | int):
    raise ValueError(
      f'metric {name!r} must be a number, got {value!r}; pass device arrays'
      ' through DelayedFetch'
    )
  return value


class DelayedFetch:
  """Reads device metrics one step late, so that the device never waits.

  A leaf is a scalar, or a (sum, weight) pair that stands for sum / weight
  and is None where nothing was counted. Nested names are joined by '/'.
  """

  def __init__(self, shape: tuple[int, ...] = ()):
    """Takes `shape` of every leaf; [S] if S runs are measured at once."""
    self._shape = shape
    self._held: tuple[int, dict[str, Any]] | None = None

  def push(
    self, step: int, tree: Mapping[str, Any]
  ) -> tuple[int, dict[str, Any]] | None:
    """Keeps this step's tree; returns (step, scalars) of the previous one."""
    named = dict(_flat(tree, self._shape))
    for leaf in jax.tree.leaves(named):
      if isinstance(leaf, jax.Array):
        leaf.copy_to_host_async()
    before = self.drain()
    self._held = (step, named)
    return before

  def drain(self) -> tuple[int, dict[str, Any]] | None:
    """Returns (step, scalars) of the tree still held, if any."""
    held, self._held = self._held, None
    if held is None:
      return None
    host = jax.device_get(held[1])
    return held[0], {name: _value(leaf) for name, leaf in host.items()}


def _flat(
  tree: Mapping[str, Any], shape: tuple[int, ...], prefix: str = ''
) -> Iterator[tuple]:
  for name, leaf in tree.items():
    if isinstance(leaf, Mapping):
      yield from _flat(leaf, shape, f'{prefix}{name}/')
      continue
    parts = leaf if isinstance(leaf, tuple) else (leaf,)
    shapes = [np.shape(part) for part in parts]
    if len(parts) > 2 or any(x != shape for x in shapes):
      wanted = f'an array of shape {shape}' if shape else 'a scalar'
      raise ValueError(
        f'metric {prefix + name!r} must be {wanted} or a (sum, weight) pair,'
        f' got shapes {shapes}'
      )
    yield prefix + name, leaf


def _value(leaf: Any) -> float | np.ndarray | None:
  counted = np.ones((), bool)
  if isinstance(leaf, tuple):
    total, weight = (np.asarray(part, float) for part in leaf)
    counted = weight != 0
    with np.errstate(all='ignore'):
      leaf = total / weight
  if not np.ndim(leaf):
    return float(leaf) if counted else None
  values = np.asarray(leaf, float)
  if counted.all():
    return values
  measured = values.astype(object)
  measured[~counted] = None
  return measured
