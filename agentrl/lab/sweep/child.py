"""A job's own process before it becomes the job: its cores, its end.

  python -m agentrl.lab.sweep.child PARENT CORES COMMAND...

CORES are numbers with commas between them. A parent that has threads, as JAX
has, cannot do this between fork and exec without a risk of standing still.
"""

import ctypes
import os
import signal
import sys

PARENT_DEATH = 1  # PR_SET_PDEATHSIG of linux/prctl.h


def end_with(parent: int) -> None:
  """Ends this process, a child of that one, when it ends, however it does."""
  ctypes.CDLL(None).prctl(PARENT_DEATH, signal.SIGKILL)
  if os.getppid() != parent:  # it died before that
    os._exit(1)


def begin(parent: int, cores: set[int]) -> None:
  """Gives this process, a child of that one, these cores; it ends with it."""
  end_with(parent)
  os.sched_setaffinity(0, cores)


def main(argv: list[str]) -> None:
  parent, cores, *command = argv
  begin(int(parent), {*map(int, cores.split(','))})
  os.execvp(command[0], command)


if __name__ == '__main__':
  main(sys.argv[1:])
