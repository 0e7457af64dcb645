"""Runs side by side on this machine, each a process of its own.

The cores are dealt to the places of the pool, so that runs do not take them
from each other. Children end when their parent does, however it ends: a
sweep that is started again is then alone in its folders.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple


class Job(NamedTuple):
  """A command, and the file that its output is added to.

  env: variables that the command has unless this process has them
  """

  name: str
  command: tuple[str, ...]
  log: str
  env: Mapping[str, str] = {}


class _Running(NamedTuple):
  job: Job
  process: subprocess.Popen
  place: int


def cores(places: int) -> list[set[int]]:
  """Deals out the usable cores evenly; shared if there are more places."""
  usable = sorted(os.sched_getaffinity(0))
  if places > len(usable):
    return [set(usable)] * places
  return [set(usable[i::places]) for i in range(places)]


def run(
  jobs: Sequence[Job],
  places: int,
  look: Callable[[list[str], dict[str, int]], None],
  every: float = 1.0,
) -> dict[str, int]:
  """Runs all jobs, at most `places` at a time: {name: exit status}.

  Args:
    look: (names that run, exit statuses so far), called every few seconds
  A job that fails does not stop the others. Ctrl-C stops all of them.
  """
  waiting, running, done = list(jobs), [], {}
  free, mine = list(range(places)), cores(places)
  try:
    while waiting or running:
      while waiting and free:
        place, job = free.pop(0), waiting.pop(0)
        running.append(_Running(job, _start(job, mine[place]), place))
      for r in [r for r in running if r.process.poll() is not None]:
        done[r.job.name] = r.process.returncode
        free.append(r.place)
        running.remove(r)
      look([r.job.name for r in running], done)
      if running:
        time.sleep(every)
  finally:
    for r in running:
      r.process.terminate()
    for r in running:
      r.process.wait()
  return done


def _start(job: Job, mine: set[int]) -> subprocess.Popen:
  cores = ','.join(map(str, sorted(mine)))
  child = (
    sys.executable,
    '-m',
    'agentrl.lab.sweep.child',
    str(os.getpid()),
    cores,
  )
  os.makedirs(os.path.dirname(job.log), exist_ok=True)
  with open(job.log, 'ab') as log:
    return subprocess.Popen(
      (*child, *job.command),
      env={**job.env, **os.environ},
      stdout=log,
      stderr=subprocess.STDOUT,
    )
