"""What a run says while it runs: metrics.jsonl, TensorBoard, a progress line.

`metrics.jsonl` holds one strict JSON object per step and is the truth; the
event files repeat its finite numbers. Rows are ordered by the global step; a
row of phase 'eval' may follow the training row of the same step.
"""

import json
import math
import os
import pathlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

import jax
import numpy as np
import tensorboardX
import tqdm
from absl import logging

from agentrl.tracking import Tracker

_WORDS = {'nan': math.nan, 'inf': math.inf, '-inf': -math.inf}


class Writer:
  """Writes a run's rows and event files below `workdir`.

  Every row reaches the operating system before `write` returns, so SIGKILL
  costs at most a torn last line, which the next start cuts off. A row not yet
  written when a checkpoint is taken would be a gap after resuming from it:
  drain `Late` and call `flush` before saving.
  """

  def __init__(
    self,
    workdir: str | os.PathLike,
    *,
    resume_after: int | None,
    header: Mapping[str, Any],
    active: bool = True,
    tracker: Tracker | None = None,
  ):
    """Opens the files; with `active=False` (process > 0) does nothing, ever.

    Args:
      workdir: holds metrics.jsonl, header.json, tensorboard/.
      resume_after: the step of the restored checkpoint: later rows are cut
        off. None starts a new file; an old one is kept under another name.
      header: facts about the run, JSON values, written to header.json.
      tracker: gets every finite number too, and is closed with the writer.
    """
    self._active = active
    if not active:
      return
    self._tracker = tracker
    self._workdir = pathlib.Path(workdir)
    self._workdir.mkdir(parents=True, exist_ok=True)
    path = self._workdir / 'metrics.jsonl'
    self._last = _cut(path, resume_after)
    self._file = path.open('a', encoding='utf-8')
    text = json.dumps(_strict(header), indent=2, allow_nan=False)
    replace(self._workdir / 'header.json', text + '\n')
    after = -1 if resume_after is None else resume_after
    # The suffix keeps two starts within one second out of one event file.
    self._events = tensorboardX.SummaryWriter(
      str(self._workdir / 'tensorboard'),
      purge_step=after + 1,
      filename_suffix=f'.{after + 1}.{os.getpid()}',
      flush_secs=10,
    )

  def write(
    self, step: int, scalars: Mapping[str, float], *, phase: str
  ) -> None:
    """Appends one row; `phase` is 'sft', 'rl' or 'eval'.

    Raises:
      ValueError: a step that does not come after the last one, or a value
        that is not a number, named.
    """
    if not self._active:
      return
    order = (step, phase == 'eval')
    if order <= self._last:
      raise ValueError(
        f'step {step} ({phase}) does not come after step {self._last[0]}, the '
        f'last one in {self._file.name}; steps are global and increase'
      )
    row = {'step': int(step), 'phase': phase}
    row |= {name: _number(name, value) for name, value in scalars.items()}
    self._file.write(json.dumps(_strict(row), allow_nan=False) + '\n')
    self._file.flush()
    self._last = order
    finite = {name: row[name] for name in scalars if math.isfinite(row[name])}
    for name, value in finite.items():
      self._events.add_scalar(name, value, step)
    if self._tracker:
      self._tracker.add(step, finite)

  def flush(self) -> None:
    """Returns when the rows are on disk; event files may lag a little."""
    if self._active:
      os.fsync(self._file.fileno())
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


def read(path: str | os.PathLike) -> list[dict[str, Any]]:
  """The rows of a metrics.jsonl, without a torn last line.

  Raises:
    ValueError: a line before the last that is not JSON, with its number.
  """
  return [row for row, _ in _lines(pathlib.Path(path))]


def _lines(path: pathlib.Path) -> Iterator[tuple[dict[str, Any], int]]:
  """Whole rows, each with the byte offset where it ends."""
  lines = path.read_bytes().splitlines(keepends=True)
  end = 0
  for i, line in enumerate(lines):
    if i == len(lines) - 1 and not line.endswith(b'\n'):
      return
    end += len(line)
    try:
      row = json.loads(line)
    except ValueError as e:
      raise ValueError(
        f'{path} line {i + 1} is not JSON ({e}); remove that line by hand'
      ) from e
    yield {k: _WORDS.get(v, v) for k, v in row.items()}, end


def _cut(path: pathlib.Path, resume_after: int | None) -> tuple[int, bool]:
  """Cuts the rows after a step off; the order of the last row left."""
  last, keep = (-1, True), 0
  if not path.exists():
    if resume_after is not None:
      logging.warning('%s is missing: earlier rows are lost', path)
    return last
  if resume_after is None:
    _set_aside(path)
    return last
  for row, end in _lines(path):
    if row['step'] > resume_after:
      break
    last, keep = (row['step'], row['phase'] == 'eval'), end
  os.truncate(path, keep)
  if last[0] < resume_after:
    logging.warning(
      '%s ends at step %d: rows up to %d are lost', path, last[0], resume_after
    )
  return last


def _set_aside(path: pathlib.Path) -> None:
  """Renames what an earlier start left, which had no checkpoint to go on."""
  if not path.stat().st_size:
    return
  names = (path.with_name(f'metrics.{i}.jsonl') for i in range(1, 10**6))
  free = next(p for p in names if not p.exists())
  path.rename(free)
  logging.warning('a new run starts: the old %s is now %s', path, free.name)


def replace(path: pathlib.Path, text: str) -> None:
  """Writes a file whole or not at all."""
  part = path.with_name(path.name + '.part')
  part.write_text(text, encoding='utf-8')
  part.replace(path)


def _strict(value: Any) -> Any:
  """Spells non-finite floats, for which JSON has no number, as words."""
  if isinstance(value, Mapping):
    return {k: _strict(v) for k, v in value.items()}
  if isinstance(value, list | tuple):
    return [_strict(v) for v in value]
  if isinstance(value, float) and not math.isfinite(value):
    return str(value)
  return value


def _number(name: str, value: Any) -> float | int:
  if name in ('step', 'phase'):
    raise ValueError(f'{name!r} is an argument of write, not a scalar')
  if isinstance(value, np.generic):
    value = value.item()
  if isinstance(value, bool) or not isinstance(value, float | int):
    raise ValueError(
      f'metric {name!r} is {value!r}, not a number; pass device arrays '
      'through Late'
    )
  return value


class Late:
  """Reads device metrics one step late, so the device never waits for us.

  A leaf is a scalar, or a (sum, weight) pair that stands for sum / weight
  and is NaN where nothing was counted. Nested names are joined by '/'.
  """

  def __init__(self, shape: tuple[int, ...] = ()):
    """`shape`: of every leaf; [S] where S runs are measured at once."""
    self._shape = shape
    self._held: tuple[int, dict[str, Any]] | None = None

  def push(
    self, step: int, tree: Mapping[str, Any]
  ) -> tuple[int, dict[str, Any]] | None:
    """Keeps this step's tree; gives (step, scalars) of the one before."""
    named = dict(_flat(tree, self._shape))
    for leaf in jax.tree.leaves(named):
      if isinstance(leaf, jax.Array):
        leaf.copy_to_host_async()
    before = self.drain()
    self._held = (step, named)
    return before

  def drain(self) -> tuple[int, dict[str, Any]] | None:
    """Gives (step, scalars) of what is still held, if anything is."""
    if self._held is None:
      return None
    step, named = self._held
    self._held = None
    host = jax.device_get(named)
    return step, {name: _value(leaf) for name, leaf in host.items()}


def _flat(
  tree: Mapping[str, Any], shape: tuple[int, ...], prefix: str = ''
) -> Iterator[tuple]:
  for name, leaf in tree.items():
    if isinstance(leaf, Mapping):
      yield from _flat(leaf, shape, f'{prefix}{name}/')
      continue
    parts = leaf if isinstance(leaf, tuple) else (leaf,)
    shapes = [np.shape(part) for part in parts]
    if len(parts) > 2 or any(found != shape for found in shapes):
      wanted = f'an array of shape {shape}' if shape else 'a scalar'
      raise ValueError(
        f'metric {prefix + name!r} has shapes {shapes}; give {wanted} or a '
        '(sum, weight) pair of them'
      )
    yield prefix + name, leaf


def _value(leaf: Any) -> float | np.ndarray:
  if isinstance(leaf, tuple):
    total, weight = (np.asarray(part, float) for part in leaf)
    with np.errstate(all='ignore'):
      leaf = np.where(weight == 0, math.nan, total / weight)
  return np.asarray(leaf, float) if np.ndim(leaf) else float(leaf)


class Progress:
  """One line that says how far the run is: a bar, or plain lines in a log."""

  def __init__(
    self,
    total: int,
    *,
    initial: int = 0,
    show: tuple[str, ...] = (),
    every: int = 10,
    active: bool = True,
    stream: TextIO | None = None,
  ):
    """Starts at step `initial` of `total`.

    Args:
      show: names of the numbers to print, in order; absent ones are skipped.
      every: steps between plain lines where the stream is no terminal.
      stream: stderr unless given.
    """
    if every < 1:
      raise ValueError(f'every={every} would print nothing; use 1 or more')
    self._stream = sys.stderr if stream is None else stream
    self._total, self._show, self._every = total, show, every
    self._active = active
    self._bar = None
    if active and self._stream.isatty():
      self._bar = tqdm.tqdm(
        total=total,
        initial=initial,
        file=self._stream,
        dynamic_ncols=True,
        bar_format='{n}/{total} {bar:20} {elapsed}<{remaining}{postfix}',
      )

  def update(self, step: int, scalars: Mapping[str, float]) -> None:
    """Shows that `step` is done, with its chosen numbers."""
    if not self._active:
      return
    chosen = [f'{n} {scalars[n]:.4g}' for n in self._show if n in scalars]
    if self._bar is not None:
      self._bar.set_postfix_str('  '.join(chosen), refresh=False)
      self._bar.update(step - self._bar.n)
    elif step % self._every == 0 or step == self._total:
      line = '  '.join([f'step {step}/{self._total}', *chosen])
      print(line, file=self._stream, flush=True)

  def close(self) -> None:
    """Leaves the last line standing."""
    if self._bar is not None:
      self._bar.close()
