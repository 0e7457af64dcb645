"""Python code that cannot reach anything: one fresh process for each run.

Four layers of Linux, none of which needs privileges or a library, are put
around the code (`native/`):

  namespaces  no network, no other processes, a file system of its own with
              one folder in memory
  landlock    opens only the standard library (and that folder)
  seccomp     no socket, process, mount, trace, lock, ...: 115 harmless calls
  nobody      root becomes an unprivileged user, another one in every run

With limits of the process (memory, threads, files) and a reader that kills
what runs or prints too long, six things are guaranteed. What the system lacks
is found out when a `Sandbox` is made, by trying to escape; it then runs code
only if every guarantee held.
"""

import functools
import os
import sys
import tempfile
from collections.abc import Sequence

from agentrl.tool.sandbox.process import (
  JAIL,
  Outcome,
  SandboxLimits,
  execute,
  order,
)

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
# To find out what holds, on a busy machine.
_ENOUGH = SandboxLimits(seconds=60.0)


class Sandbox:
  """Runs untrusted Python code.

  Code finds the standard library, `packages`, and an empty folder as its
  working directory, which is gone afterwards; without namespaces it has no
  folder. Runs know nothing of each other, and any number may go on at once.
  """

  def __init__(
    self,
    limits: SandboxLimits = SandboxLimits(),  # noqa: B008  a tuple of numbers
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
    self._packages = tuple(os.path.realpath(path) for path in packages)
    self._python = python
    self.layers = _standing(python, tuple(layers))
    broken = _broken(python, self.layers)
    if broken:
      missing = '; '.join(f'{name} needs {GUARANTEES[name]}' for name in broken)
      raise RuntimeError(
        f'the sandbox runs no code here, since with {self.layers or "no layer"}'
        f' code gets past the limits of {", ".join(broken)}: {missing}'
      )

  def run(self, code: str) -> Outcome:
    """Runs the code as a program; -> what it printed, errors among it.

    The fault is '' or one of error (an exception, or a status but 0), time,
    memory, output, processes, files, network (what an exception that ended
    the code says it was refused), crash (a signal). A fault that the code
    catches is none.

    Raises:
      RuntimeError: a layer that stood before cannot be put up now.
    """
    request = order(
      code, self._python, self.layers, self.limits, self._packages
    )
    outcome = execute(self._python, request, self.limits)
    if outcome.fault == 'refused':
      raise RuntimeError(f'the sandbox did not run code: {outcome.text}')
    return outcome


def _check(limits: SandboxLimits, packages, layers) -> None:
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


@functools.cache
def _standing(python: str, layers: tuple[str, ...]) -> tuple[str, ...]:
  """The layers that can be put up here, each tried by itself."""
  return tuple(
    layer for layer in layers if not _trial('', python, [layer]).fault
  )


def _trial(code: str, python: str, layers: Sequence[str]) -> Outcome:
  return execute(python, order(code, python, layers, _ENOUGH, ()), _ENOUGH)


@functools.cache
def _broken(python: str, layers: tuple[str, ...]) -> tuple[str, ...]:
  """The guarantees that an escape broke."""
  broken = set()
  for code, limits, fault in (
    ('while True: pass', SandboxLimits(seconds=0.5), 'time'),
    ('while True: print(0)', SandboxLimits(output=1000), 'output'),
  ):
    request = order(code, python, layers, limits, ())
    if execute(python, request, limits).fault != fault:
      broken.add(fault)
  return tuple(sorted(broken | _escapes(python, layers)))


def _escapes(python: str, layers: tuple[str, ...]) -> set[str]:
  with tempfile.NamedTemporaryFile() as canary:
    os.chmod(canary.name, 0o666)
    code = f'CANARY = {canary.name!r}\n' + (JAIL / 'probe.py').read_text()
    outcome = _trial(code, python, layers)
  words = outcome.text.split()
  if outcome.fault == 'refused':
    raise RuntimeError(
      f'the sandbox runs no code here: of {layers} each can be put up and not'
      f' all ({outcome.text.strip()}); leave one out with layers='
    )
  if outcome.fault or words[:1] != ['broken:']:
    raise RuntimeError(
      f'the sandbox cannot run {python}, it says {outcome.text!r}: use an'
      ' interpreter that every user can read'
    )
  return set(words[1:])
