"""Python code that cannot reach anything: one fresh process for each run.

Four layers of Linux, none of which needs privileges or a library, are put
around the code (`agentrl/tool/jail`):

  namespaces  no network, no other processes, a file system of its own with
              one folder in memory
  landlock    opens only the standard library (and that folder)
  seccomp     no socket, process, mount, trace, ...: 117 harmless calls only
  nobody      root becomes an unprivileged user

With limits of the process (memory, threads, files) and a reader that kills
what runs or prints too long, six things are guaranteed. What the system lacks
is found out when a `Sandbox` is made, by trying to escape; it then runs code
only if every guarantee held.
"""

import functools
import json
import os
import pathlib
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import NamedTuple

from agentrl.tool.jail import program
from agentrl.tool.visible import visible

LAYERS = ('namespaces', 'landlock', 'seccomp', 'nobody')
GUARANTEES = {
  'network': 'seccomp filters or user namespaces',
  'files': (
    'user namespaces (user.max_user_namespaces above 0, and nothing that'
    ' forbids them to this user) or Landlock (Linux 5.13, named in lsm=)'
  ),
  'processes': 'seccomp filters on x86_64 or aarch64, and a user but root',
  'memory': 'limits of the address space (setrlimit)',
  'time': 'SIGKILL from the parent',
  'output': 'SIGKILL from the parent',
}
_JAIL = pathlib.Path(__file__).parent / 'jail'
_KINDS = {status: kind for kind, status in program.ENDS.items()}
_PLAIN = {
  'HOME': '/box', 'TMPDIR': '/box', 'PYTHONUTF8': '1', 'LC_ALL': 'C.UTF-8',
  'PYTHONHASHSEED': '0',  # sets print in the same order in every run
  'OPENBLAS_NUM_THREADS': '1', 'OMP_NUM_THREADS': '1',
}  # fmt: skip


class Limits(NamedTuple):
  """What one run of code may use."""

  seconds: float = 10.0  # by the clock, the start of the process included
  memory: int = 512 << 20  # bytes of address space
  folder: int = 16 << 20  # bytes in its folder, which are memory too
  threads: int = 16
  output: int = 8000  # bytes printed


_ENOUGH = Limits(seconds=60.0)  # to find out what holds, on a busy machine


class Outcome(NamedTuple):
  """What the code printed, and why it was stopped ('' if it was not)."""

  text: str
  fault: str


class Sandbox:
  """Runs Python code that nobody has read.

  Code finds the standard library, `packages`, and an empty folder as its
  working directory, which is gone afterwards; without namespaces it has no
  folder. Runs know nothing of each other, and any number may go on at once.
  """

  def __init__(
    self,
    limits: Limits = Limits(),  # noqa: B008  a tuple of numbers
    *,
    packages: Sequence[str] = (),
    python: str = sys.executable,
    layers: Sequence[str] = LAYERS,
  ):
    """Finds out what holds here; about a second the first time.

    Args:
      limits: of every run.
      packages: absolute paths of folders that the code can import from, say a
        site-packages with numpy; all that is in them can be read.
      python: the interpreter, 3.11 or later.
      layers: which to use if they are there; fewer than all to see what the
        others hold by themselves.

    Raises:
      ValueError: a limit or path that cannot be.
      RuntimeError: a guarantee does not hold; says which, and what is missing.
    """
    _check(limits, packages, layers)
    self.limits = limits
    self._packages = [os.path.realpath(path) for path in packages]
    self._python = python
    self.layers = _standing(python, tuple(layers))
    broken = _broken(python, self.layers)
    if broken:
      raise RuntimeError(_complaint(broken, self.layers))

  def run(self, code: str) -> Outcome:
    """Runs the code as a program; -> what it printed, errors among it.

    The fault is '' or one of error (an exception, or a status but 0), time,
    memory, output, processes, files, network (what an exception that ended
    the code says it was refused), crash (a signal). A fault that the code
    catches is none.

    Raises:
      RuntimeError: a layer that stood before cannot be put up now.
    """
    order = _order(code, self._python, self.layers, self.limits, self._packages)
    outcome = _run(self._python, order, self.limits)
    if outcome.fault == 'refused':
      raise RuntimeError(f'the sandbox did not run code: {outcome.text}')
    return outcome


def _check(limits: Limits, packages, layers) -> None:
  for name, value in limits._asdict().items():
    if value <= 0:
      raise ValueError(f'limit {name}={value} lets nothing run; use above 0')
  if limits.memory < 64 << 20:
    raise ValueError(
      f'memory={limits.memory} bytes do not hold an interpreter; use 64 << 20'
      ' or more'
    )
  for path in packages:
    if not (os.path.isabs(path) and os.path.isdir(path)):
      raise ValueError(
        f'package folder {path!r} is no absolute path of a folder'
      )
  for layer in layers:
    if layer not in LAYERS:
      raise ValueError(f'layer {layer!r} is unknown; use some of {LAYERS}')
  if sys.platform != 'linux':
    raise RuntimeError(
      f'the sandbox needs Linux and this is {sys.platform}; run the tool in a'
      ' Linux container'
    )


def _order(code, python, layers, limits: Limits, packages) -> bytes:
  see, hidden = visible(python, tuple(packages))
  return json.dumps(
    dict(
      code=code,
      layers=list(layers),
      see=see,
      hidden=hidden,
      packages=packages,
      memory=limits.memory,
      folder=limits.folder,
      threads=limits.threads,
      seconds=limits.seconds,
    )
  ).encode()


def _run(python: str, order: bytes, limits: Limits) -> Outcome:
  end = time.monotonic() + limits.seconds
  process = subprocess.Popen(
    [python, '-s', '-S', '-P', str(_JAIL)],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    env=_PLAIN,
    cwd='/',
    start_new_session=True,
  )
  try:
    _hand_over(process, order)
    text, fault = _read(process.stdout, end, limits.output)
  finally:
    _stop(process)
  shown = text.decode('utf-8', 'replace')
  return Outcome(shown, fault or _fault(process.returncode))


def _hand_over(process: subprocess.Popen, order: bytes) -> None:
  try:
    process.stdin.write(order)
    process.stdin.close()
  except BrokenPipeError:  # it ended before: its status says why
    pass


def _read(pipe, end: float, most: int) -> tuple[bytes, str]:
  """What comes until the pipe closes: when nobody is left inside."""
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
  process.stdout.close()


def _fault(status: int) -> str:
  """The kind that an exit status tells of."""
  if status == 128 + signal.SIGXCPU:
    return 'time'
  if status < 0 or status > 128:
    return 'crash'
  return _KINDS.get(status, 'error') if status else ''


@functools.cache
def _standing(python: str, layers: tuple[str, ...]) -> tuple[str, ...]:
  """The layers that can be put up here, each tried by itself."""
  return tuple(
    layer
    for layer in layers
    if not _run(python, _order('', python, [layer], _ENOUGH, []), _ENOUGH).fault
  )


@functools.cache
def _broken(python: str, layers: tuple[str, ...]) -> tuple[str, ...]:
  """The guarantees that an escape broke."""
  broken = set()
  for code, limits, fault in (
    ('while True: pass', Limits(seconds=0.5), 'time'),
    ('while True: print(0)', Limits(output=1000), 'output'),
  ):
    order = _order(code, python, layers, limits, [])
    if _run(python, order, limits).fault != fault:
      broken.add(fault)
  return tuple(sorted(broken | _escapes(python, layers)))


def _escapes(python: str, layers: tuple[str, ...]) -> set[str]:
  with tempfile.NamedTemporaryFile() as canary:
    os.chmod(canary.name, 0o666)
    code = f'CANARY = {canary.name!r}\n' + (_JAIL / 'probe.py').read_text()
    outcome = _run(python, _order(code, python, layers, _ENOUGH, []), _ENOUGH)
  said = outcome.text.split()
  if outcome.fault or said[:1] != ['broken:']:
    raise RuntimeError(
      f'the sandbox cannot run {python}, it says {outcome.text!r}: use an'
      ' interpreter that every user can read'
    )
  return set(said[1:])


def _complaint(broken: tuple[str, ...], layers: tuple[str, ...]) -> str:
  """One sentence."""
  missing = '; '.join(f'{name} needs {GUARANTEES[name]}' for name in broken)
  return (
    f'the sandbox runs no code here, since with {layers or "no layer"} code'
    f' gets past the limits of {", ".join(broken)}: {missing}'
  )
