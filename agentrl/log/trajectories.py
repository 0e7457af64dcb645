"""Trajectory log of a run: JSONL files for people and programs.

A trajectory is one JSON object per line of a file in `<run>/trajectories`;
docs/TRAJECTORIES.md lists its fields. Each process of a run writes its own
files, a new one whenever one is large.

  log = trajectories.Log('runs/oprl')
  solved = np.flatnonzero(log.heads['outcome'] > 0.5)
  print(log[solved[-1]]['turns'][0]['said']['text'])
"""

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from absl import logging

from agentrl.log import shards
from agentrl.log.shards import PHASES  # noqa: F401  (a part of what is read)
from agentrl.runtime import storage

FOLDER = 'trajectories'
SHARD = 1 << 28  # bytes of a file, after which the next one is begun
Trajectory = Mapping[str, Any]


class TrajectoryWriter:
  """Appends trajectories, ordered by step, to one process's files."""

  def __init__(
    self,
    workdir: str | os.PathLike,
    *,
    resume_after: int | None,
    process: int = 0,
    active: bool = True,
    check: Callable[[], None] = lambda: None,
  ):
    """Opens the last file; with `active=False` never does anything.

    Args:
      resume_after: step of the restored checkpoint; trajectories of later steps
        are cut off, since they will be sampled again. None cuts off all.
      check: raises if this process may no longer write in the folder
    """
    self._active, self._check = active, check
    if not active:
      return
    folder = storage.path(workdir) / FOLDER
    if folder.exists() and not folder.is_dir():
      storage.set_aside(folder, 'must be a folder')
    folder.mkdir(parents=True, exist_ok=True)
    self._name = str(folder / f'{process:05d}-{{:05d}}.jsonl')
    after = -1 if resume_after is None else resume_after
    paths = sorted(folder.glob(f'{process:05d}-*.jsonl'))
    for path in paths:
      if path.is_dir():
        storage.set_aside(path, 'must be a file')
    if after >= 0 and not paths:
      logging.warning('%s has no file: earlier trajectories are lost', folder)
    paths = [x for x in paths if x.exists()]
    self._last = -1
    self._open(paths[0] if paths else storage.path(self._name.format(0)), after)
    for path in paths[1:]:
      if not self._open(path, after, self._file):
        storage.remove(path)
        storage.remove(shards.index_of(path))

  def _open(self, path: storage.Path, after: int, before=None) -> bool:
    """Cuts a file to steps <= after and opens it, unless that leaves it empty.

    before: file that stays open in that case
    """
    heads = np.empty(0, shards.HEAD)
    if path.exists():
      heads = shards.read_heads(path)
    late = np.flatnonzero(heads['step'] > after)
    keep = heads[: late[0]] if len(late) else heads
    if len(late):
      logging.info('%s: %d later than step %d are cut', path, len(late), after)
    if after >= 0 and path.exists() and shards.is_damaged(path, keep, after):
      storage.copy_aside(path, 'has damaged lines at its end')
    if before:
      if not len(keep):
        return False
      before.close()
    if len(keep):
      self._last = int(keep['step'][-1])
    self._path, self._file = path, shards.ShardWriter(path, keep)
    return True

  def write(self, trajectory: Trajectory) -> None:
    """Appends a trajectory.

    Raises:
      ValueError: its step is before the last one.
    """
    if not self._active:
      return
    step = trajectory['step']
    if step < self._last:
      raise ValueError(
        f'step must be at least {self._last}, the last one in {self._path},'
        f' got {step}; log trajectories in the order of their steps'
      )
    self._check()
    if self._file.size > SHARD:
      self._file.close()
      number = int(self._path.stem.partition('-')[2]) + 1
      self._path = storage.path(self._name.format(number))
      self._file = shards.ShardWriter(self._path, np.empty(0, shards.HEAD))
    self._file.write(shards.facts(trajectory), encode(trajectory))
    self._last = int(step)

  def flush(self) -> None:
    """Flushes to disk."""
    if self._active:
      self._file.flush()

  def close(self) -> None:
    """Flushes and closes; the writer cannot be used afterwards."""
    if self._active:
      self._file.close()
      self._active = False


class Log:
  """Trajectories of a run by number; reading changes no file.

  heads: [n] shards.HEAD, of all files, each file's in the order of writing
  """

  def __init__(self, workdir: str | os.PathLike):
    """Opens the log; ValueError if the run has none."""
    self._folder = storage.path(workdir) / FOLDER
    self._files: dict[storage.Path, np.ndarray] = {}
    if not self._folder.is_dir():
      raise ValueError(
        f'{workdir} must be the --workdir of a started run with a folder'
        f' {FOLDER!r}; set config.log.groups or config.log.eval_trajectories'
        ' above 0'
      )
    self.refresh()

  def refresh(self) -> None:
    """Loads trajectories written since; existing numbers stay the same.

    Numbers may change with several files, or after a resumed run cut its own.
    """
    paths = sorted(x for x in self._folder.iterdir() if not x.is_dir())
    files = {
      p: shards.read_heads(p, self._files.get(p))
      for p in paths
      if p.suffix == '.jsonl'
    }
    grown = files.keys() != self._files.keys() or any(
      x is not self._files[p] for p, x in files.items()
    )
    if grown or not files:
      self._files = files
      parts = [np.empty(0, shards.HEAD), *files.values()]
      self._first = np.cumsum([0] + [len(x) for x in files.values()])
      self.heads = np.concatenate(parts)

  def __len__(self) -> int:
    return len(self.heads)

  def __getitem__(self, i: int) -> dict[str, Any]:
    """Reads one; IndexError for an unknown number, ValueError for damage."""
    return json.loads(self.text(i))

  def text(self, i: int, most: int | None = None) -> bytes:
    """Reads the JSON of one trajectory of at most `most` bytes.

    Raises what `log[i]` raises, and ValueError for a larger one.
    """
    if not 0 <= i < len(self):
      raise IndexError(f'trajectory must be below {len(self)}, got {i}')
    k = int(np.searchsorted(self._first, i, side='right')) - 1
    return shards.body(list(self._files)[k], self.heads[i], most)


def encode(trajectory: Trajectory) -> bytes:
  """Encodes strict JSON; non-finite numbers are words, as in metrics.jsonl."""
  try:
    text = json.dumps(trajectory, allow_nan=False, separators=(',', ':'))
  except ValueError:
    text = json.dumps(shards.strict(trajectory), separators=(',', ':'))
  return text.encode()
