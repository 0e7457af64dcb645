"""Trajectories that a run kept, to be read by people and by programs.

A trajectory is a JSON object; docs/TRAJECTORIES.md says what is in it. Each
process of a run writes a file of its own below `<run>/trajectories`.

  log = logged.Log('runs/oprl')
  solved = np.flatnonzero(log.heads['outcome'] > 0.5)
  print(log[solved[-1]]['turns'][0]['said']['text'])
"""

import json
import math
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from absl import logging

from agentrl import storage
from agentrl.log import records
from agentrl.types import Status

FOLDER = 'trajectories'
PHASES = ('sft', 'rl', 'eval')  # as metrics.jsonl names them; append only
Trajectory = Mapping[str, Any]


class Writer:
  """Appends trajectories, ordered by step, to one process's file."""

  def __init__(
    self,
    workdir: str | os.PathLike,
    *,
    resume_after: int | None,
    process: int = 0,
    active: bool = True,
    check: Callable[[], None] = lambda: None,
  ):
    """Opens the file; with `active=False` does nothing, ever.

    Args:
      resume_after: the step of the restored checkpoint: trajectories of later
        steps are cut off, since they will be made again. None cuts off all.
      check: raises where the folder is no longer this process's to write in
    """
    self._active, self._check = active, check
    if not active:
      return
    folder = pathlib.Path(workdir) / FOLDER
    if folder.exists() and not folder.is_dir():
      storage.set_aside(folder, 'is no folder')
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f'{process:05d}.log'
    if path.is_dir():
      storage.set_aside(path, 'is a folder where a file is to be')
    after = -1 if resume_after is None else resume_after
    if after >= 0 and not path.exists():
      logging.warning('%s is missing: earlier trajectories are lost', path)
    path.touch()
    found = records.heads(path)
    late = np.flatnonzero(found['step'] > after)
    keep = found[: late[0]] if len(late) else found
    if len(late):
      logging.info('%s: %d later than step %d are cut', path, len(late), after)
    if after >= 0 and records.damaged(path, keep, after):
      storage.copy_aside(path, 'has damaged records at its end')
    self._last = int(keep['step'][-1]) if len(keep) else -1
    self._path, self._file = path, records.Appender(path, keep)

  def write(self, trajectory: Trajectory) -> None:
    """Appends one.

    Raises:
      ValueError: its step comes before the last one's.
    """
    if not self._active:
      return
    head = facts(trajectory)
    if head['step'] < self._last:
      raise ValueError(
        f'step {head["step"]} comes before step {self._last}, the last one in'
        f' {self._path}; log trajectories in the order of their steps'
      )
    self._check()
    self._file.write(head, encode(trajectory))
    self._last = int(head['step'])

  def flush(self) -> None:
    """Returns when what was written is on disk."""
    if self._active:
      self._file.flush()

  def close(self) -> None:
    """Flushes and closes; the writer cannot be used afterwards."""
    if self._active:
      self._file.close()
      self._active = False


class Log:
  """The trajectories of a run, by number; reading changes no file.

  heads: [n] framed.HEAD, of all files, each file's in the order of writing
  """

  def __init__(self, workdir: str | os.PathLike):
    """Raises ValueError if the run has no log."""
    self._folder = pathlib.Path(workdir) / FOLDER
    self._found: dict[pathlib.Path, np.ndarray] = {}
    if not self._folder.is_dir():
      raise ValueError(
        f'{workdir} has no folder {FOLDER!r}; name the --workdir of a run that'
        ' has begun, with config.log.groups or config.log.held_out above 0'
      )
    self.refresh()

  def refresh(self) -> None:
    """Looks for what has been written since; numbers stay what they were.

    Not if there are several files, or if a resumed run has cut its own.
    """
    paths = sorted(self._folder.glob('*.log'))
    found = {p: records.heads(p, self._found.get(p)) for p in paths}
    grown = found.keys() != self._found.keys() or any(
      x is not self._found[p] for p, x in found.items()
    )
    if grown or not found:
      self._found = found
      parts = [np.empty(0, records.HEAD), *found.values()]
      self._first = np.cumsum([0] + [len(x) for x in found.values()])
      self.heads = np.concatenate(parts)

  def __len__(self) -> int:
    return len(self.heads)

  def __getitem__(self, i: int) -> dict[str, Any]:
    """Raises IndexError for a number that is none, ValueError for damage."""
    return json.loads(self.text(i))

  def text(self, i: int, most: int | None = None) -> bytes:
    """The JSON of one trajectory, if it has no more than `most` bytes.

    Raises what `log[i]` raises, ValueError also for one that is larger.
    """
    if not 0 <= i < len(self):
      raise IndexError(f'trajectory {i} is none of the {len(self)} in this log')
    k = int(np.searchsorted(self._first, i, side='right')) - 1
    path = list(self._found)[k]
    return records.body(path, self.heads[i], most)


def facts(trajectory: Trajectory) -> np.void:
  """What the head of a trajectory's record says of it."""
  t = np.zeros((), records.FACTS)
  turns = trajectory['turns']
  for name in ('step', 'task', 'group', 'member', 'outcome', 'reward'):
    t[name] = trajectory[name]
  t['phase'] = PHASES.index(trajectory['phase'])
  t['status'] = Status[trajectory['status'].upper()]
  t['turns'] = min(len(turns), 2**16 - 1)
  t['tokens'] = sum(len(x['said']['tokens']) for x in turns)
  return t[()]


def encode(trajectory: Trajectory) -> bytes:
  """Strict JSON: a number that is not finite is a word, as in metrics.jsonl."""
  try:
    text = json.dumps(trajectory, allow_nan=False, separators=(',', ':'))
  except ValueError:
    text = json.dumps(_strict(trajectory), separators=(',', ':'))
  return text.encode()


def _strict(x: Any) -> Any:
  if isinstance(x, Mapping):
    return {k: _strict(v) for k, v in x.items()}
  if isinstance(x, list):
    return [_strict(v) for v in x]
  return str(x) if isinstance(x, float) and not math.isfinite(x) else x
