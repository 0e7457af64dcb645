"""TensorBoard event files, written in the calling thread.

tensorboardX writes in a thread of its own, which dies with a traceback when it
cannot write, on a full disk say, and leaves its caller waiting forever.
"""

import os
import time
import types

from tensorboardX import event_file_writer, record_writer, summary
from tensorboardX.proto import event_pb2

from agentrl.runtime import storage

FOLDER = 'tensorboard'
_FLUSH = 10.0  # seconds


# Event files in a bucket, with no package of tensorboardX's choice.
_BUCKET = types.SimpleNamespace(
  directory_check=lambda path: None,  # a bucket has none
  open=lambda path: storage.Appender(storage.path(path)),
)
record_writer.register_writer_factory('gs', _BUCKET)


class EventWriter:
  """Event file of a run; each start of the run makes another."""

  def __init__(self, workdir: storage.Path, *, resume_after: int):
    """Hides events of earlier files after step `resume_after`."""
    folder = workdir / FOLDER
    if folder.exists() and not folder.is_dir():
      storage.set_aside(folder, 'must be a folder')
    folder.mkdir(exist_ok=True)
    first = resume_after + 1
    # The suffix keeps two starts within one second out of one event file.
    self._path = folder / f'events.*.{first}.{os.getpid()}'
    self._flushed = time.monotonic()
    with storage.naming(self._path):
      self._file = event_file_writer.EventsWriter(
        str(folder / 'events'), f'.{first}.{os.getpid()}'
      )
    start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
    self._add(event_pb2.Event(step=first, file_version='brain.Event:2'))
    self._add(event_pb2.Event(step=first, session_log=start))

  def scalar(self, name: str, value: float, step: int) -> None:
    self._add(event_pb2.Event(step=step, summary=summary.scalar(name, value)))
    if time.monotonic() - self._flushed > _FLUSH:
      self.flush()

  def flush(self) -> None:
    with storage.naming(self._path):
      self._file.flush()
    self._flushed = time.monotonic()

  def close(self) -> None:
    with storage.naming(self._path):
      self._file.close()

  def _add(self, event: event_pb2.Event) -> None:
    event.wall_time = time.time()
    with storage.naming(self._path):
      self._file.write_event(event)
