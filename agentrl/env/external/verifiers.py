"""Tasks of verifiers (0.4), which drive the policy over HTTP.

verifiers needs other versions of our packages, so it runs in its own virtual
environment. A process there plays the tasks of a taskset with a verifiers
harness, which calls the policy through the gateway, as env=program does.
"""

import dataclasses
import functools
import json
import os
import pathlib
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentrl import domain
from agentrl.env import task_sampling
from agentrl.env.base import HostTask
from agentrl.env.external import interpreter, keywords
from agentrl.env.external.line_server import LineServer
from agentrl.env.files.program_family import ProgramFamily

VERSION = '0.4.'  # of verifiers, whose interfaces differ from 0.3's
_MAIN = pathlib.Path(__file__).with_name('verifiers_main.py')
_PROBE = "from importlib.metadata import version; print(version('verifiers'))"
_SECONDS = 60.0  # for the interpreter, and for a post


@dataclasses.dataclass(frozen=True)
class Verifiers(ProgramFamily):
  """A task is {'index'}, its position in the taskset."""

  python: domain.Place = ''  # of the virtual environment that has verifiers
  taskset: str = ''  # its id, or a module that has one
  settings: str = ''  # of the taskset, as in "game='Wordle-v0'"
  harness: str = 'null'  # the program of verifiers that calls the policy
  size: domain.Count = 1000  # tasks at the beginning of the taskset

  def check(self) -> None:
    for field in ('python', 'taskset'):
      if not vars(self)[field]:
        raise ValueError(
          f"env.{field} must be set, got ''; env.python is the interpreter of a"
          ' virtual environment with verifiers, env.taskset a taskset'
        )
    keywords.parse(self.settings)
    version = _version(self.python)
    if not version.startswith(VERSION):
      raise ValueError(
        f'env.python={self.python!r} has verifiers {version or "not"}; install'
        f" 'verifiers=={VERSION}*' there"
      )

  def name(self) -> str:
    """Returns verifiers-<hash of all settings>."""
    return task_sampling.name('verifiers', self)

  def sizes(self) -> Mapping[str, int]:
    """Counts tasks by split; see `base.FiniteFamily`."""
    return task_sampling.sizes(
      self._tasks, f'env.size={self.size}', 'raise it: a fifth is held out'
    )

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Yields taskset positions, without demonstrations; see `EnvFamily`."""
    where = f'env.size={self.size}'
    tasks = self._tasks(split)
    return task_sampling.chosen(tasks, split, count, seed, where)

  def start(
    self, task: Mapping[str, Any], seed: int, address: str, key: str
  ) -> 'VerifiersRun':
    del seed  # verifiers takes none
    return VerifiersRun(_server(self), task['index'], address, key)

  def grade(
    self, task: Mapping[str, Any], messages: Sequence[Mapping[str, str]]
  ) -> None:
    """Grades nothing: the reward is posted."""

  def _tasks(self, split: str) -> list[HostTask]:
    every = [HostTask({'index': i}, (), self._key(i)) for i in range(self.size)]
    return task_sampling.of_split(every, split)

  def _key(self, index: int) -> str:
    return task_sampling.key([self.taskset, self.settings, index])


class VerifiersRun:
  """One episode, which posts its reward to the session."""

  def __init__(self, server: LineServer, index: int, address: str, key: str):
    self._address, self._key = address, key
    self._pending = server.ask(
      {'index': index, 'address': address, 'key': key, 'model': 'policy'}
    )

  def wait(self) -> None:
    """Waits for the episode; raises LineError if verifiers failed."""
    reward = float(self._pending.wait()['reward'])
    _post(
      f'{self._address}/reward',
      self._key,
      {'reward': reward, 'score': min(max(reward, 0.0), 1.0)},
    )

  def kill(self) -> None:
    self._pending.cancel()


@functools.lru_cache(maxsize=4)
def _server(family: Verifiers) -> LineServer:
  """Starts the process of a family, one per run."""
  config = {
    'taskset': {'id': family.taskset, **keywords.parse(family.settings)},
    'agent': {
      'harness': {'id': family.harness},
      'runtime': {'type': 'subprocess'},
    },
  }
  folder = os.path.dirname(os.path.abspath(family.python))
  environ = {
    'PYTHONPATH': os.pathsep.join(interpreter.own_paths()),
    'PATH': os.pathsep.join([folder, os.environ.get('PATH', '')]),
  }
  words = [family.python, '-P', str(_MAIN), json.dumps(config)]
  return LineServer(words, environ)


def _version(python: str) -> str:
  """Returns an interpreter's version of verifiers; '' if it has none."""
  try:
    done = subprocess.run(
      [python, '-I', '-c', _PROBE],
      capture_output=True,
      text=True,
      timeout=_SECONDS,
    )
  except (OSError, subprocess.SubprocessError) as error:
    raise ValueError(
      'env.python must be the path of a Python interpreter, such as'
      f' /path/to/venv/bin/python, got {python!r} ({error})'
    ) from error
  return done.stdout.strip()


def _post(url: str, key: str, body: Mapping[str, Any]) -> None:
  opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
  headers = {'Authorization': f'Bearer {key}'}
  request = urllib.request.Request(url, json.dumps(body).encode(), headers)
  opener.open(request, timeout=_SECONDS).close()
