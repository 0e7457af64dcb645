"""Privileges that a process has dropped do not come back."""

import pathlib
import subprocess
import sys

from agentrl.tool.sandbox.native import privileges

CODE = """
import ctypes, subprocess, sys
sys.path.append(sys.argv[1])
from agentrl.tool.sandbox.native import privileges
libc = ctypes.CDLL(None, use_errno=True)
privileges.gain_none(libc)
privileges.drop(libc)
show = ['sed', '-n', '/^Cap[IPEA]/p;/^NoNew/p', '/proc/self/status']
sys.stdout.write(open('/proc/self/status').read())
sys.stdout.flush()
subprocess.run(show, check=True)
"""


def test_neither_it_nor_what_it_runs_has_any():
  root = str(pathlib.Path(privileges.__file__).parents[4])
  done = subprocess.run(
    [sys.executable, '-I', '-S', '-c', CODE, root],
    capture_output=True,
    text=True,
    check=True,
  )
  lines = [line.split() for line in done.stdout.splitlines()]
  kinds = 'CapInh:', 'CapPrm:', 'CapEff:', 'CapAmb:'
  found = [line for line in lines if line[0] in kinds]
  assert len(found) == 2 * len(kinds)
  assert {value for _, value in found} == {'0' * 16}
  assert lines.count(['NoNewPrivs:', '1']) == 2
