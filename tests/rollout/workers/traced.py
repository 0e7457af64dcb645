"""A world that notes in which process it is played; for tests that end it."""

import dataclasses
import os
import pathlib
import time
import uuid

from tests.rollout import chatty


@dataclasses.dataclass(frozen=True)
class Traced(chatty.Chatty):
  folder: str = ''

  def env(self):
    return TracedEnv(self.folder)

  def processes(self) -> list[int]:
    """By when they began to play."""
    return [int(x.suffix[1:]) for x in self._begun()]

  def playing(self, turns: int) -> list[int]:
    """Those with turns to play in episodes of at most so many, by beginning."""
    traces = [(x, x.read_text()) for x in self._begun()]
    return [
      int(x.suffix[1:])
      for x, trace in traces
      if 'end' not in trace and len(trace) < turns
    ]

  def _begun(self) -> list[pathlib.Path]:
    files = pathlib.Path(self.folder).iterdir()
    # The name begins with the time: a file's own changes as its episode ends.
    return sorted(files, key=lambda x: int(x.name.partition('.')[0]))


class TracedEnv(chatty.Env):
  def __init__(self, folder: str):
    self._folder = pathlib.Path(folder)

  def reset(self, task, seed):
    name = f'{time.time_ns()}.{uuid.uuid4()}.{os.getpid()}'
    self._trace = self._folder / name
    self._trace.touch()
    return super().reset(task, seed)

  def step(self, message):
    step = super().step(message)
    self._note('end' if step.done else '.')
    return step

  def close(self):
    self._note('end')

  def _note(self, what: str) -> None:
    with self._trace.open('a') as file:
      file.write(what)
