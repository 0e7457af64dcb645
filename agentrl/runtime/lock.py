"""Lock of a folder: only one process writes in it.

    <folder>/lock.<n>   a line of JSON on the holder, then one that it renews

The file with the highest number is the lock; a process that takes it over makes
the next number and removes the previous one, so that processes never write into
each other's files. The last file stays, marked as released: numbers only grow.
It needs only files, so it works between machines that share a file system.

It trusts no clock. A process that finds a lock watches whether it is renewed: a
holder whose clock jumps is alive, one that was stopped is not.
"""

import datetime
import json
import math
import os
import pathlib
import re
import socket
import threading
import time
import uuid
from typing import NamedTuple

from absl import logging

from agentrl.runtime import storage

BEAT = 5.0  # seconds between renewals
STALE = 60.0  # seconds without one after which a lock is taken over
_TICKS = 5  # looks at a lock within one beat
_DIGITS = 18  # of a number, at most
_LAST = 10**_DIGITS - 1
_SURE = 3  # beats for which even an old lock is watched
_GIVEN_BACK = b'given back'
_RENEWED = b'renewed %020d\n'


class TakenError(ValueError):
  """Error: another process writes in the folder."""


class LostError(OSError):
  """Error: this process may no longer write in the folder."""


class Holder(NamedTuple):
  """Process that holds a lock, as the lock states.

  machine: kernel and process-id namespace; '' if unknown
  started: in the kernel's ticks since boot, since ids are reused
  """

  host: str
  pid: int
  since: str
  machine: str
  started: str
  mark: str

  def __str__(self) -> str:
    return f'process {self.pid} on {self.host} since {self.since}'


class Lock:
  """Lock held while entered, by one of the processes that share the folder.

  with Lock(folder) as lock:
    ...
    lock.check()  # before anything that must not be written twice
  """

  def __init__(
    self, folder: str | os.PathLike, *, beat: float = BEAT, stale: float = STALE
  ):
    self._folder = storage.path(storage.absolute(folder))
    self._beat, self._stale = beat, stale
    self._done = threading.Event()
    self._renewed, self._looked = 0, -math.inf
    self._place: int | None = None  # the folder's descriptor; None in a bucket

  def __enter__(self) -> 'Lock':
    """Takes the lock, waiting up to a minute. Raises TakenError."""
    self._folder.mkdir(parents=True, exist_ok=True)
    self._me = Holder(
      host=socket.gethostname(),
      pid=os.getpid(),
      since=datetime.datetime.now().astimezone().isoformat(' ', 'seconds'),
      machine=_machine(),
      started=_started(os.getpid()),
      mark=uuid.uuid4().hex,
    )
    self._line = json.dumps(self._me._asdict()).encode() + b'\n'
    while not self._take():
      pass
    if not storage.in_bucket(self._folder):
      self._place = os.open(self._folder, os.O_RDONLY)
    self._thread = threading.Thread(target=self._keep_renewing, daemon=True)
    self._thread.start()
    return self

  def __exit__(self, *_) -> None:
    self._done.set()
    self._thread.join()
    try:
      self._put(_GIVEN_BACK.ljust(len(_RENEWED % 0) - 1) + b'\n')
    except FileNotFoundError:
      pass  # nobody waits for it
    except OSError as error:
      logging.warning('%s was not released: %s', self._path, error)
    if self._place is not None:
      os.close(self._place)
      self._place = None

  def check(self) -> None:
    """Raises LostError once another process may write here, or none can.

    A bucket, where each look is a request, is checked once per beat; a process
    that takes over waits for several beats.
    """
    now = time.clock_gettime(time.CLOCK_BOOTTIME)  # a machine asleep counts
    if storage.in_bucket(self._folder) and now - self._looked < self._beat:
      return
    if _read(self._path).startswith(self._line):
      self._looked = now
      return
    if self._is_gone():
      raise LostError(
        f'{self._folder} was removed or unmounted during the run, which cannot'
        ' continue; repeat the command to start again'
      )
    newest = _newest(self._folder)
    holder = _holder(_read(_path(self._folder, newest)))
    if newest <= self._number or holder is None:
      raise LostError(
        f'{self._path} was removed or changed: another process may write in'
        f' {self._folder}, so this one stops; repeat the command to resume'
      )
    raise LostError(
      f'{self._folder} was taken over by {holder}, after this process'
      f' ({self._me.pid} on {self._me.host}) had been unresponsive for'
      f' {self._stale:g} seconds; it stops without writing'
    )

  def _is_gone(self) -> bool:
    """Returns whether the folder was removed or replaced."""
    if self._place is None:
      return not self._folder.is_dir()
    ours = os.fstat(self._place)  # open, so its number is of no other folder
    try:
      return not os.path.samestat(ours, os.stat(self._folder))
    except OSError:
      return True

  def _take(self) -> bool:
    """Takes the lock if it is free; returns whether it did."""
    newest = _newest(self._folder)
    if newest >= _LAST:
      raise TakenError(
        f'{_path(self._folder, newest)} has the highest number that a lock can'
        ' have, which runs never reach; remove it'
      )
    if newest and not self._free(newest):
      return False
    self._number = newest + 1
    self._path = _path(self._folder, self._number)
    try:
      storage.create(self._path, self._line + _RENEWED % 0)
    except FileExistsError:
      return False
    except OSError:
      self._path.unlink(missing_ok=True)
      raise
    if not _read(self._path).startswith(self._line):
      return False
    if _newest(self._folder) != self._number:  # looked at the old one too long
      self._path.unlink(missing_ok=True)
      return False
    for number in _numbers(self._folder):
      if number < self._number:
        path = _path(self._folder, number)
        try:
          path.unlink(missing_ok=True)
        except (IsADirectoryError, PermissionError):
          logging.warning('%s is a folder and was left in place', path)
    return True

  def _free(self, number: int) -> bool:
    """Waits until certain and returns whether the lock is free.

    False if it is no longer the current lock. Raises TakenError.
    """
    path = _path(self._folder, number)
    first = _read(path)
    holder = _holder(first)
    name = holder or 'an unknown process'
    if _given_back(first):
      return True
    if _gone(holder):
      logging.warning('%s was held by %s, which has ended', self._folder, name)
      return True
    patience = max(self._stale - _age(path), _SURE * self._beat)
    patience = min(patience, self._stale)
    logging.info(
      '%s is held by %s: waiting up to %.0f seconds to see whether it is alive',
      self._folder,
      name,
      patience,
    )
    # Looks are counted, not seconds: if both are suspended, as one machine,
    # the holder has its chance again to renew the lock.
    for _ in range(math.ceil(patience * _TICKS / self._beat)):
      time.sleep(self._beat / _TICKS)
      now = _read(path)
      if now != first:
        if not now or _given_back(now):
          return False
        raise TakenError(
          f'--workdir={self._folder} is in use by {_holder(now) or name}; wait'
          ' until it ends, or use another one'
        )
      if _gone(holder):
        break
    logging.warning(
      '%s was held by %s, which stopped renewing its lock: taken over',
      self._folder,
      name,
    )
    return True

  def _keep_renewing(self) -> None:
    while not self._done.wait(self._beat):
      self._renewed += 1
      try:
        self._put(_RENEWED % self._renewed)
      except Exception as error:  # of the disk, or of the network
        # Not the end: `check` says whether the lock is lost by that.
        logging.warning('%s cannot be renewed: %s', self._path, error)

  def _put(self, word: bytes) -> None:
    """Overwrites the second line if this process still owns the file."""
    if storage.in_bucket(self._path):
      if _read(self._path).startswith(self._line):
        storage.write(self._path, self._line + word)
      return
    with self._path.open('r+b') as f:
      if f.read(len(self._line)) == self._line:
        f.write(word)
        f.flush()
        os.fsync(f.fileno())


def _path(folder: storage.Path, number: int) -> pathlib.Path:
  return folder / f'lock.{number}'


def _numbers(folder: storage.Path) -> list[int]:
  try:
    names = [x.name for x in folder.iterdir()]
  except FileNotFoundError:
    return []
  matches = (
    re.fullmatch(rf'lock\.([1-9][0-9]{{0,{_DIGITS - 1}}})', x) for x in names
  )
  return [int(x.group(1)) for x in matches if x]


def _newest(folder: storage.Path) -> int:
  """Returns the number of the current lock; 0 without one."""
  return max(_numbers(folder), default=0)


def _read(path: storage.Path) -> bytes:
  """Reads a lock; empty if it is missing or not a file."""
  if not storage.in_bucket(path) and not path.is_file():  # such as a pipe
    return b''
  try:
    return path.read_bytes()
  except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
    return b''


def _given_back(data: bytes) -> bool:
  return data.partition(b'\n')[2].startswith(_GIVEN_BACK)


def _holder(data: bytes) -> Holder | None:
  """Parses the holder of a lock; None if it is unreadable."""
  try:
    holder = Holder(**json.loads(data.partition(b'\n')[0]))
    return holder if isinstance(holder.pid, int) else None
  except (ValueError, TypeError, RecursionError):
    return None


def _age(path: storage.Path) -> float:
  """Returns seconds since a lock was renewed, by the file system's clock."""
  probe = path.with_name(f'.{path.name}.{uuid.uuid4().hex}')
  try:
    probe.write_bytes(b'')
    return storage.modified(probe) - storage.modified(path)
  except FileNotFoundError:
    return 0.0
  finally:
    storage.remove(probe)


def _machine() -> str:
  """Returns the scope of unique process ids; '' if unknown."""
  try:
    boot = pathlib.Path('/proc/sys/kernel/random/boot_id').read_text().strip()
    return f'{boot} {os.readlink("/proc/self/ns/pid")}'
  except OSError:
    return ''


def _started(pid: int) -> str:
  """Returns when a process started; '' if it has ended, even unreaped."""
  try:
    text = pathlib.Path(f'/proc/{pid}/stat').read_text()
  except OSError:
    return ''
  fields = text.rpartition(')')[2].split()  # the name may have any character
  return '' if fields[0] in 'ZX' else fields[19]


def _gone(holder: Holder | None) -> bool:
  """Returns whether it certainly is an ended process of this machine."""
  if holder is None or not holder.machine or holder.machine != _machine():
    return False
  return _started(holder.pid) != holder.started
