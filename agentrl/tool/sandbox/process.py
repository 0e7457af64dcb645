"""One run of code in the jail: its order, its time, and what it prints."""

import contextlib
import marshal
import os
import pathlib
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import NamedTuple

from agentrl.tool.sandbox.mounts import visible
from agentrl.tool.sandbox.native import program

JAIL = pathlib.Path(__file__).parent / 'native'
_PROGRAM = str(JAIL / '__main__.py')
_KINDS = {status: kind for kind, status in program.ENDS.items()}
_PLAIN = {
  'HOME': '/box',
  'TMPDIR': '/box',
  'PYTHONUTF8': '1',
  'LC_ALL': 'C.UTF-8',
  'PYTHONHASHSEED': '0',  # sets print in the same order in every run
  'OPENBLAS_NUM_THREADS': '1',
  'OMP_NUM_THREADS': '1',
}


class SandboxLimits(NamedTuple):
  """Limits of one run of code."""

  seconds: float = 10.0  # by the clock, the start of the process included
  memory: int = 512 << 20  # bytes of address space
  folder: int = 16 << 20  # bytes in its folder, which are memory too
  threads: int = 16
  output: int = 8000  # bytes printed


class Outcome(NamedTuple):
  """Output of the code, and why it was stopped ('' if it was not)."""

  text: str
  fault: str


def order(
  code: str,
  python: str,
  layers: Sequence[str],
  limits: SandboxLimits,
  packages: Sequence[str],
) -> bytes:
  """Encodes an order for the sandbox; native/__main__.py lists its fields."""
  see, hidden = visible(python, tuple(packages))
  return marshal.dumps(
    dict(
      code=code,
      layers=list(layers),
      see=see,
      hidden=hidden,
      packages=list(packages),
      memory=limits.memory,
      folder=limits.folder,
      threads=limits.threads,
      seconds=limits.seconds,
      parent=os.getpid(),
    ),
    2,  # a version that every Python reads
  )


def execute(python: str, request: bytes, limits: SandboxLimits) -> Outcome:
  """Runs an `order`; when it returns, no process of it is left.

  The fault is 'refused' if a layer could not be put up; no code ran then.
  """
  end = time.monotonic() + limits.seconds
  process = subprocess.Popen(
    [python, '-s', '-S', '-P', _PROGRAM],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    env=_PLAIN,
    cwd='/',
    start_new_session=True,
  )
  assert process.stdin is not None
  try:
    with contextlib.suppress(BrokenPipeError):  # ended: its status says why
      process.stdin.write(request)
      process.stdin.close()
    text, fault = _read(process.stdout, end, limits.output)
  finally:
    _stop(process)
  output = text.decode('utf-8', 'replace')
  return Outcome(output, fault or _fault(process.returncode))


def _read(pipe, end: float, most: int) -> tuple[bytes, str]:
  """Reads until the pipe closes, when all processes inside have ended."""
  text = b''
  with selectors.DefaultSelector() as selector:
    selector.register(pipe, selectors.EVENT_READ)
    while True:
      if not selector.select(max(0.0, end - time.monotonic())):
        return text, 'time'
      piece = os.read(pipe.fileno(), 65536)
      if not piece:
        return text, ''
      text += piece
      if len(text) > most:
        return text[:most], 'output'
      if time.monotonic() > end:
        return text, 'time'


def _stop(process: subprocess.Popen) -> None:
  """Returns when neither process is left: the outer one waits for the inner."""
  process.terminate()
  try:
    process.wait(5)
  except subprocess.TimeoutExpired:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
  assert process.stdout is not None
  process.stdout.close()


def _fault(status: int) -> str:
  """Returns the kind that an exit status tells of."""
  if status < 0 or status > 128:
    return 'crash'
  return _KINDS.get(status, 'error') if status else ''
