"""Runs of programs: a command with all that it starts, or a function."""

import contextlib
import dataclasses
import functools
import json
import os
import re
import subprocess
import tempfile
import threading
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agentrl.tool import subreaper
from agentrl.tool.sandbox.native import command

LOOPBACK = '127.0.0.1,localhost,::1'
# Variables that a command in the sandbox is given: where programs are and how
# they speak. Others may be keys; `env NAME=value command` gives it more.
_GIVEN = re.compile(
  r'PATH|LD_LIBRARY_PATH|LANG|LANGUAGE|LC_\w+|TZ|TERM|USER|LOGNAME|SHELL'
  r'|PYTHON\w*|VIRTUAL_ENV|CONDA_PREFIX|JAVA_HOME|(OMP|MKL|OPENBLAS)_\w+'
  r'|JAX_PLATFORMS|HF_HOME|HF_HUB_OFFLINE'
)
_PRINTED = 2000  # characters of what a program printed that an error repeats


class ProgramExitError(RuntimeError):
  """A command that ended with another status than 0, or could not begin."""


@dataclasses.dataclass
class FunctionRun:
  """A function in the thread that waits for it, where it cannot be stopped."""

  function: Callable[[str, str, dict[str, Any]], Any]
  address: str
  key: str
  task: dict[str, Any]

  def wait(self) -> None:
    self.function(self.address, self.key, self.task)

  def kill(self) -> None:
    """Ends the run; its calls are refused once the session is over."""


class CommandRun:
  """A command, killed with all that it has started."""

  def __init__(
    self,
    words: Sequence[str],
    address: str,
    key: str,
    task: Mapping[str, Any],
    *,
    sandbox: bool = False,
  ):
    """Begins nothing yet.

    Args:
      sandbox: whether it changes files in a folder of its own alone, which is
        $HOME and $TMPDIR and gone afterwards, connects to the policy alone
        and is given no variables that may be keys of the user
    """
    self._words, self._task = words, json.dumps(task, ensure_ascii=False)
    own = {
      name: value
      for name, value in os.environ.items()
      if not sandbox or _GIVEN.fullmatch(name)
    }
    self._environ = own | environment(address, key)
    self._port = urllib.parse.urlsplit(address).port if sandbox else None
    self._lock, self._killed = threading.Lock(), False
    self._process: subprocess.Popen | None = None

  def wait(self) -> None:
    """Raises ProgramExitError, with what it printed at last."""
    if self._port is None:
      self._run(self._words)
      return
    with own_folder() as folder:
      self._environ |= {'HOME': folder, 'TMPDIR': folder}
      self._run(command.wrapped(self._port, folder, list(self._words)))

  def _run(self, words: Sequence[str]) -> None:
    with self._lock:
      if self._killed:
        return
      self._process = subprocess.Popen(
        subreaper.command(words),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=self._environ,
        start_new_session=True,
      )
    write = threading.Thread(target=self._give, daemon=True)
    write.start()
    assert self._process.stdout is not None
    output, printed = self._process.stdout.fileno(), b''
    while part := os.read(output, 1 << 16):
      printed = (printed + part)[-_PRINTED:]
    self._process.stdout.close()
    status = self._process.wait()
    if status and not self._killed:
      text = printed.decode('utf-8', 'replace').strip()
      raise ProgramExitError(
        f'{self._words[0]} ended with status {status}; it printed at last:'
        f' {text}'
      )

  def kill(self) -> None:
    with self._lock:
      self._killed = True
      if self._process is not None and self._process.poll() is None:
        subreaper.end(self._process.pid)

  def _give(self) -> None:
    """Writes the task; a program that does not read it may end before."""
    assert self._process is not None
    assert self._process.stdin is not None
    with contextlib.suppress(OSError):
      self._process.stdin.write(self._task.encode())
      self._process.stdin.close()


@contextlib.contextmanager
def own_folder() -> Iterator[str]:
  """Makes a folder that is gone afterwards, whatever was made of it.

  What removes it here follows no links, opens what was closed, and goes as deep
  as it is: tempfile's own way does not.
  """
  folder = tempfile.mkdtemp()
  try:
    yield folder
  finally:
    for words in (['chmod', '-R', 'u+rwX'], ['rm', '-rf']):
      subprocess.run([*words, '--', folder], capture_output=True, check=False)


def environment(address: str, key: str) -> dict[str, str]:
  """Returns the variables by which clients find the policy.

  Loopback is asked directly, whatever proxy the machine has.
  """
  near = {
    name: ','.join(filter(None, (os.environ.get(name, ''), LOOPBACK)))
    for name in ('NO_PROXY', 'no_proxy')
  }
  return near | {
    'OPENAI_BASE_URL': f'{address}/v1',
    'OPENAI_API_KEY': key,
    'ANTHROPIC_BASE_URL': address,
    'ANTHROPIC_API_KEY': key,
    'AGENTRL_ADDRESS': address,
  }


@functools.cache
def confinement() -> str:
  """Says why commands cannot be kept in a sandbox here; '': they can."""
  with tempfile.TemporaryDirectory() as folder:
    done = subprocess.run(
      command.wrapped(1, folder, ['true']), capture_output=True, text=True
    )
  return done.stdout.strip() or done.stderr.strip()[-200:]
