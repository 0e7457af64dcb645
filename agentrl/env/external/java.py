"""Helpers of environments in Java: requirements, shutdown, messages."""

import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

from agentrl.env import splits

PATIENCE = 5  # seconds to end by itself


def needed(package: str) -> None:
  """Checks the requirements before a Java process is started.

  Raises:
    ValueError: there is no Java here.
  """
  if shutil.which('java') is None:
    raise ValueError(
      f'{package} needs the program java, which is not on the PATH; install a'
      ' Java runtime of version 8 or later, as apt install default-jre'
    )


def stop(world: Any) -> None:
  """Ends the Java process of TextWorldExpress or ScienceWorld.

  It ends by itself once the process that started it is gone: it reads its
  standard input for that.
  """
  process = world._gateway.java_process  # neither package offers it otherwise
  world.close()
  try:
    process.wait(PATIENCE)
  except subprocess.TimeoutExpired:
    process.kill()
    process.wait()


def sanitize(message: str) -> str:
  """Returns a message that Java accepts: valid Unicode without NUL."""
  return message.encode('utf-8', 'replace').decode().replace('\0', ' ').strip()


def chosen(
  numbers: list[int], split: str, count: int, seed: int
) -> Iterator[int]:
  """Draws `count` of a package's own numbers for a split, in a random order.

  Raises:
    ValueError: unknown split, negative seed, or fewer numbers.
  """
  rng = splits.split_rng(split, seed)
  if count > len(numbers):
    raise ValueError(
      f'there are {len(numbers)} {split} tasks, and {count} were asked for; ask'
      ' for fewer'
    )
  return iter(rng.permutation(numbers).tolist()[:count])
