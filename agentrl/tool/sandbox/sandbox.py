"""Sandbox for Python code: one fresh process per run.

Four layers of Linux, which need neither privileges nor libraries, confine the
code (`native/`):

  namespaces  no network, no other processes, a file system of its own with
              one folder in memory
  landlock    opens only the standard library (and that folder)
  seccomp     no socket, process, mount, trace, lock, ...: 115 harmless calls
  user        root becomes an unprivileged user, a different one in each run

With process limits (memory, threads, files) and a reader that kills code that
runs or prints too long, six guarantees hold. A `Sandbox` verifies them at
construction by trying to escape, and refuses to run code if any fails.
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

LAYERS = ('namespaces', 'landlock', 'seccomp', 'user')
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

  Code sees the standard library, `packages`, and an empty temporary working
  directory; without namespaces it has no folder. Runs are isolated from each
  other and may be concurrent.
  """

  def __init__(
    self,
    limits: SandboxLimits = SandboxLimits(),  # noqa: B008  a tuple of numbers
    *,
    packages: Sequence[str] = (),
    python: str = sys.executable,
    layers: Sequence[str] = LAYERS,
  ):
    """Verifies the guarantees on this system; about a second the first time.

    Args:
      limits: of every run.
      packages: absolute paths of folders to import from, say a site-packages
        with numpy; the code can read everything in them.
      python: the interpreter, 3.11 or later.
      layers: to use if available; fewer, to test what the others guarantee.

    Raises:
      ValueError: an invalid limit or path.
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
        f'the sandbox cannot confine code here: with layers {self.layers} it'
        f' escapes the limits of {", ".join(broken)}: {missing}'
      )

  def run(self, code: str) -> Outcome:
    """Runs the code as a program; returns its output, errors included.

    The fault is '' or one of error (an exception, or a nonzero status), time,
    memory, output, processes, files, network (as stated by the exception that
    ended the code), crash (a signal). A fault that the code catches does not
    count.

    Raises:
      RuntimeError: a layer that worked before fails now.
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
      raise ValueError(f'limit {name} must be above 0, got {value}')
  if limits.memory < 64 << 20:
    raise ValueError(
      'memory must be at least 64 << 20 bytes, for the interpreter, got'
      f' {limits.memory}'
    )
  for path in packages:
    if not (os.path.isabs(path) and os.path.isdir(path)):
      raise ValueError(
        f'packages must be absolute paths of folders, got {path!r}'
      )
  for layer in layers:
    if layer not in LAYERS:
      raise ValueError(f'layers must be among {LAYERS}, got {layer!r}')
  if sys.platform != 'linux':
    raise RuntimeError(
      f'the sandbox needs Linux, got {sys.platform}; run the tool in a Linux'
      ' container'
    )


@functools.cache
def _standing(python: str, layers: tuple[str, ...]) -> tuple[str, ...]:
  """Returns the layers that work here, each tried alone."""
  return tuple(
    layer for layer in layers if not _trial('', python, [layer]).fault
  )


def _trial(code: str, python: str, layers: Sequence[str]) -> Outcome:
  return execute(python, order(code, python, layers, _ENOUGH, ()), _ENOUGH)


@functools.cache
def _broken(python: str, layers: tuple[str, ...]) -> tuple[str, ...]:
  """Returns the guarantees broken by an escape."""
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
      f'the sandbox cannot run code here: {layers} work alone but not together'
      f' ({outcome.text.strip()}); leave one out with layers='
    )
  if outcome.fault or words[:1] != ['broken:']:
    raise RuntimeError(
      f'the sandbox cannot run {python} ({outcome.text!r}); use an interpreter'
      ' that every user can read'
    )
  return set(words[1:])
