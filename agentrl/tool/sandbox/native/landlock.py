"""Landlock: what the process may open from now on, by folders and files.

Linux 5.13 and later, without any privilege. Older versions of it know fewer
rights: what they do not know they do not hold back, and `seccomp` does.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Iterable, Iterator

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # system calls, everywhere the same
_EXECUTE, _WRITE, _READ, _LIST = 1, 2, 4, 8
_TRUNCATE, _DEVICE = 1 << 14, 1 << 15
_ALL = (1 << 16) - 1
_TO_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _DEVICE
_SEE = _EXECUTE | _READ | _LIST
_TCP, _CONNECT = 3, 2  # bind and connect; connect
_FOLDER, _PORT = 1, 2  # kinds of rules
_SCOPES = 3  # abstract sockets, signals


def rights(version: int) -> tuple[int, int, int]:
  """Lists rights that the version can restrict: of files, network, scopes."""
  files = {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)
  network = _TCP if version >= 4 else 0
  return (1 << files) - 1, network, _SCOPES if version >= 6 else 0


def _checked(result: int) -> int:
  if result < 0:
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
  return result


def version(libc: ctypes.CDLL) -> int:
  """Returns the version, 1 or more.

  Raises:
    OSError: the kernel has none, or it is switched off.
  """
  return _checked(libc.syscall(_CREATE, None, 0, 1))


def spread(path: str, hidden: Iterable[str]) -> Iterator[str]:
  """Returns the path, or what of it is not under a hidden folder.

  Rights are only ever added, so that what is hidden must not be named at all.
  """
  if path in hidden:
    return
  if not any(inner.startswith(os.path.join(path, '')) for inner in hidden):
    yield path
    return
  for entry in sorted(os.scandir(path), key=lambda entry: entry.name):
    if not entry.is_symlink():
      yield from spread(entry.path, hidden)


def restrict(
  libc: ctypes.CDLL,
  see: Iterable[str],
  hidden: Iterable[str],
  change: Iterable[str],
  ports: Iterable[int] = (),
  names: Iterable[str] = (),
) -> None:
  """Restricts from now on: reads `see` without `hidden`, changes `change`.

  What is in `names` can be listed, hidden files too. Where the version knows
  TCP, it connects to `ports` and binds to none.

  Raises:
    OSError: the kernel has no Landlock.
  """
  files, network, scopes = rights(version(libc))
  head = struct.pack('QQQ', files, network, scopes)
  rules = _checked(libc.syscall(_CREATE, head, len(head), 0))
  for path in see:
    for part in spread(path, hidden):
      _allow(libc, rules, part, files & _SEE)
  for path in names:
    _allow(libc, rules, path, files & _LIST)
  for path in change:
    _allow(libc, rules, path, files & _ALL)
  for port in ports if network else ():
    rule = struct.pack('QQ', _CONNECT, port)
    _checked(libc.syscall(_ADD, rules, _PORT, rule, 0))
  _checked(libc.syscall(_RESTRICT, rules, 0))
  os.close(rules)


def _allow(libc: ctypes.CDLL, rules: int, path: str, access: int) -> None:
  try:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
  except OSError as error:
    if error.errno in (errno.ENOENT, errno.EACCES):
      return  # what this user cannot reach need not be allowed
    raise
  if not os.path.isdir(path):
    access &= _TO_FILES
  rule = struct.pack('=Qi', access, place)
  _checked(libc.syscall(_ADD, rules, _FOLDER, rule, 0))
  os.close(place)
