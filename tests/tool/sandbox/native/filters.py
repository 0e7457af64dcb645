"""The kernel's part of a filter, in Python: what it says to a call."""

import pathlib
import re
import struct
from collections.abc import Iterable

import pytest

from agentrl.tool.sandbox.native import bpf

ALLOW, KILL, GRANTED = 'allow', 'kill', 0  # granted: by no kernel
_HEADERS = {
  'x86_64': '/usr/include/x86_64-linux-gnu/asm/unistd_64.h',
  'aarch64': '/usr/include/asm-generic/unistd.h',
}


def judge(program: bytes, arch: int, number: int, args=()):
  """'allow', 'kill' or the error that the kernel would give, 0 being none."""
  data = struct.pack('iIQ', number, arch, 0)
  data += struct.pack('6Q', *(list(args) + [0] * 6)[:6])
  at, held = 0, 0
  while True:
    code, yes, no, value = struct.unpack_from('HBBI', program, 8 * at)
    at += 1
    if code == 0x20:
      held = struct.unpack_from('I', data, value)[0]
    elif code == 0x54:
      held &= value
    elif code == 0x15:
      at += yes if held == value else no
    elif code == 0x35:
      at += yes if held >= value else no
    else:
      assert code == 0x06
      named = {0x7FFF0000: ALLOW, 0x80000000: KILL, 0x00050000: GRANTED}
      return named.get(value, value & 0xFFFF)


def arch(machine: str) -> int:
  return bpf.MACHINES[machine][1]


def of_kernel(machine: str, names: Iterable[str]) -> dict[str, int]:
  """Numbers of the calls in the kernel's own headers, which may be older."""
  header = pathlib.Path(_HEADERS[machine])
  if not header.exists():
    pytest.skip('no headers of the kernel here')
  found = re.findall(
    r'#define __NR(?:3264)?_(\w+) (\d+)', header.read_text(encoding='utf-8')
  )
  known = {name: int(number) for name, number in found}
  known['newfstatat'] = known.get('newfstatat', known.get('fstatat'))
  return {name: known[name] for name in names if name in known}
