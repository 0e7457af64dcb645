"""Filters of system calls, as instructions of classic BPF, 8 bytes each.

They are assembled by hand, so that nothing beyond libc is needed. A filter is
`entry`, then `judged` calls, then what all others get.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Callable

MACHINES = {'x86_64': (0, 0xC000003E), 'aarch64': (1, 0xC00000B7)}
CLONE_NEW = 0x7E020080  # flags of every namespace, of time too

_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCH, _ARGS = 0, 4, 16  # offsets in struct seccomp_data
_X32 = 0x40000000  # calls of the 32-bit ABI on x86_64 have this bit


def numbers(table: str, machine: str) -> dict[str, int]:
  """Maps name -> number on 'x86_64' or 'aarch64', of calls that exist there."""
  column = MACHINES[machine][0]
  rows = (row.split() for row in table.split(','))
  return {
    row[0]: int(row[1 + column]) for row in rows if row[1 + column] != '-'
  }


def _op(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
  return struct.pack('HBBI', code, yes, no, value)


def allow() -> bytes:
  return _op(_RETURN, _ALLOW)


def refuse(error: int) -> bytes:
  """Returns the error; 0: as if the call had been made."""
  return _op(_RETURN, _ERRNO | error)


def word(arg: int, mask: int | None = None, *, high: bool = False) -> bytes:
  """Loads the low, or high, word of an argument, or the masked bits of it."""
  load = _op(_LOAD, _ARGS + 8 * arg + 4 * high)
  return load if mask is None else load + _op(_AND, mask)


def where(values: tuple[int, ...], verdict: bytes) -> bytes:
  """Gives the verdict if the word that was loaded is one of the values."""
  size = len(verdict) // 8
  return b''.join(_op(_EQUAL, x, 0, size) + verdict for x in values)


def unless(values: tuple[int, ...], error: int) -> bytes:
  """Refuses the call unless the word that was loaded is one of the values."""
  some = enumerate(values)
  checks = (_op(_EQUAL, x, len(values) - i) for i, x in some)
  return b''.join(checks) + refuse(error)


def one_of(arg: int, values: tuple[int, ...], error: int) -> bytes:
  """Allows the call if the argument's low word is one of the values."""
  return word(arg) + where(values, allow()) + refuse(error)


def masked(arg: int, mask: int, value: int, error: int) -> bytes:
  """Allows the call if argument & mask == value."""
  return word(arg, mask) + where((value,), allow()) + refuse(error)


def entry(machine: str) -> bytes:
  """Loads the number of a call; one of another machine's ends the process."""
  out = _op(_LOAD, _ARCH) + _op(_EQUAL, MACHINES[machine][1], 1, 0)
  out += _op(_RETURN, _KILL) + _op(_LOAD, _NUMBER)
  return out + _op(_AT_LEAST, _X32, 0, 1) + _op(_RETURN, _KILL)


def judged(rules: dict[str, bytes], calls: dict[str, int]) -> bytes:
  """Returns the rule of each call that exists; others pass on."""
  return b''.join(
    where((calls[name],), rule) for name, rule in rules.items() if name in calls
  )


def install(libc: ctypes.CDLL, make: Callable[[str], bytes]) -> None:
  """Puts the filter of the machine on this process, for ever.

  Raises:
    OSError: the kernel has no filters, or the machine is not known here.
  """
  machine = os.uname().machine
  if machine not in MACHINES:
    raise OSError(errno.ENOSYS, f'no table of system calls for {machine}')
  code = make(machine)
  held = ctypes.create_string_buffer(code, len(code))
  head = struct.pack('HxxxxxxP', len(code) // 8, ctypes.addressof(held))
  if libc.prctl(22, 2, head, 0, 0):  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
