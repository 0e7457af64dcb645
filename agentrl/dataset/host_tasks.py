"""Tasks of host environments: made once, found again.

One JSON object a line, {"task", "said", "key"}; the last line has how many
there are and the SHA-256 of what stands before it.
"""

import dataclasses
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any, Protocol

from absl import logging

from agentrl.dataset import progress


class Source(Protocol):
  """What makes tasks (`env.host.Family`)."""

  def name(self) -> str: ...

  def solved(self, split: str, count: int, seed: int) -> Iterator[Any]: ...


@dataclasses.dataclass(frozen=True)
class TaskSet:
  """n tasks, with a demonstration each or without."""

  tasks: list[dict[str, Any]]
  said: list[list[str]]  # messages that solve it; empty: none is known
  keys: list[str]

  def __len__(self) -> int:
    return len(self.keys)


def load(
  source: Source,
  split: str,
  count: int,
  seed: int,
  *,
  folder: str | os.PathLike[str],
) -> TaskSet:
  """`count` tasks of the source; made into `folder` if they are not there.

  Raises:
    ValueError: if an argument is wrong, the source has fewer tasks, or the
      file is damaged.
  """
  if count < 1:
    raise ValueError(f'count {count} asks for no task; ask for at least 1')
  name = f'{source.name()}-{split}-{count}-{seed}.jsonl'
  path = os.path.join(folder, 'spoken', name)
  if not os.path.exists(path):
    _make(source, split, count, seed, path)
  return _read(path)


def _make(source: Source, split: str, count: int, seed: int, path: str) -> None:
  start = time.monotonic()
  tasks = islice(source.solved(split, count, seed), count)
  what = f'Made %d of {count} {split} tasks of {source.name()}'
  found = list(progress.logged(tasks, what))
  if len(found) < count:
    raise ValueError(
      f'{source.name()} has {len(found)} {split} tasks but {count} were asked'
      ' for; ask for fewer or widen its settings'
    )
  body = ''.join(
    json.dumps({'task': task.task, 'said': list(task.said), 'key': task.key})
    + '\n'
    for task in found
  )
  _write(path, body + json.dumps(_seal(body, count)) + '\n')
  logging.info(
    'Made %d %s tasks of %s in %.1f s.',
    *(count, split, source.name(), time.monotonic() - start),
  )


def _seal(body: str, count: int) -> dict[str, Any]:
  return {'count': count, 'sha256': hashlib.sha256(body.encode()).hexdigest()}


def _write(path: str, text: str) -> None:
  """Whole or not at all, whoever else does it at the same time."""
  folder = os.path.dirname(path)
  os.makedirs(folder, exist_ok=True)
  with tempfile.NamedTemporaryFile(
    'w', dir=folder, delete=False, encoding='utf-8', newline='\n'
  ) as f:
    f.write(text)
  os.replace(f.name, path)


def _read(path: str) -> TaskSet:
  try:
    with open(path, encoding='utf-8', newline='\n') as f:
      *lines, seal = f.read().splitlines(keepends=True)
    found = [json.loads(line) for line in lines]
    if json.loads(seal) != _seal(''.join(lines), len(lines)):
      raise ValueError('its checksum is another')
    return TaskSet(
      *([task[name] for task in found] for name in ('task', 'said', 'key'))
    )
  except (ValueError, KeyError, TypeError) as error:
    raise ValueError(
      f'task file {path} is damaged ({error}); delete it, and it is made again'
    ) from error
