"""A world that notes in which process it is played; for tests that end it."""

import dataclasses
import os
import pathlib
import uuid

from tests.rollout import chatty


@dataclasses.dataclass(frozen=True)
class Traced(chatty.Chatty):
  folder: str = ''

  def env(self):
    return TracedEnv(self.folder)

  def processes(self) -> list[int]:
    """By when they began to play."""
    files = sorted(
      pathlib.Path(self.folder).iterdir(), key=lambda x: x.stat().st_mtime_ns
    )
    return [int(x.suffix[1:]) for x in files]


class TracedEnv(chatty.Env):
  def __init__(self, folder: str):
    self._folder = pathlib.Path(folder)

  def reset(self, task, seed):
    (self._folder / f'{uuid.uuid4()}.{os.getpid()}').touch()
    return super().reset(task, seed)
