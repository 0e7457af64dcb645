"""Namespaces: a machine of its own for the code, made without privileges.

No network, no other processes, and a file system with the named files and one
folder in memory. Everything ends with the first process inside.
"""

import contextlib
import ctypes
import os
import signal
import struct
from collections.abc import Callable, Iterable

_NEW = 0x7E020000  # mount, cgroup, uts, ipc, user, pid, net
_CLONE = {'x86_64': 56, 'aarch64': 220}
_PIVOT = {'x86_64': 155, 'aarch64': 41}
_READ_ONLY, _NO_SUID, _NO_DEVICES, _NO_EXEC = 1, 2, 4, 8
_REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 32, 4096, 16384, 1 << 18
_KEPT = 1 | 2 | 4 | 8 | 1024 | 2048  # flags of statvfs that are mount's too
_RELATIVE = 4096, 1 << 21  # and the one that is another
_DETACH = 2
_SET_ATTRIBUTES, _HERE, _BELOW = 442, -100, 0x8000  # mount_setattr, its args

NOBODY = 65534
_OWN = 2_000_000_000  # and above: users that no system gives to anybody
BOX = '/box'  # the folder of the code
SHARED = '/dev/shm'  # memory that processes share by name
_KEYS = '/proc/keys', '/proc/key-users'  # of the user, also outside
_BASE = '/tmp'  # where the new root is put together: it only must exist


def _checked(result: int, what: str) -> int:
  if result < 0:
    number = ctypes.get_errno()
    raise OSError(number, f'{what}: {os.strerror(number)}')
  return result


def user_of(process: int) -> int:
  """Returns a user id unique to the run, if the system has enough.

  Then runs do not share the limits that the kernel counts per user, such as
  threads. Concurrent runs have distinct processes, hence distinct users.
  """
  user = _OWN + process
  return user if _maps('uid', user) and _maps('gid', user) else NOBODY


def _maps(kind: str, number: int) -> bool:
  """Returns whether that user or group id is mapped in this container."""
  with open(f'/proc/self/{kind}_map', encoding='ascii') as lines:
    ranges = [map(int, line.split()) for line in lines]
  return any(first <= number < first + size for first, _, size in ranges)


def fork(
  libc: ctypes.CDLL, inside: Callable[[], None], user: int | None
) -> int:
  """Starts `inside` as the first process of new namespaces; returns its id.

  The user inside is the one outside; with `user`, which needs root, a second
  one (that user outside, NOBODY inside) runs the code after the first has built
  the file system.

  Raises:
    OSError: the system does not allow it.
  """
  ready, go = os.pipe()
  number = libc.syscall(
    _CLONE[os.uname().machine], _NEW | signal.SIGCHLD, 0, 0, 0, 0
  )
  if number == 0:
    os.close(go)
    if os.read(ready, 1) != b'.':
      os._exit(1)
    inside()
  _checked(number, 'new namespaces')
  os.close(ready)
  try:
    place = f'/proc/{number}/'
    also = '' if user is None else f'\n{NOBODY} {user} 1'
    if user is None:
      _write(place + 'setgroups', 'deny')
    for kind, own in (('uid', os.geteuid()), ('gid', os.getegid())):
      _write(f'{place}{kind}_map', f'{own} {own} 1{also}')
    os.write(go, b'.')
  finally:
    os.close(go)  # without the dot it gives up
  return number


def _write(path: str, text: str) -> None:
  handle = os.open(path, os.O_WRONLY)
  try:
    os.write(handle, text.encode())
  finally:
    os.close(handle)


def enter(
  libc: ctypes.CDLL, see: Iterable[str], hidden: Iterable[str], size: int
) -> None:
  """Replaces the file system by a private one.

  Args:
    libc: the C library, with errno.
    see: files and folders kept read-only at the same places.
    hidden: folders among them to empty.
    size: bytes of `BOX`, which is in memory.
  """
  tied = _NO_SUID | _NO_DEVICES
  _mount(libc, None, '/', None, _RECURSIVE | _PRIVATE)
  _mount(libc, 'tmpfs', _BASE, 'tmpfs', tied, 'size=1m,mode=755')
  old = _BASE + '/old'
  os.mkdir(old)
  os.chdir(_BASE)
  _checked(
    libc.syscall(_PIVOT[os.uname().machine], _BASE.encode(), old.encode()),
    'a root of its own',
  )
  for path in see:
    _show(libc, path)
  for path in hidden:
    if os.path.isdir(path):
      _mount(libc, 'tmpfs', path, 'tmpfs', tied | _READ_ONLY, 'size=4k')
  # /lib and the like, where they are links: the loader looks there.
  for entry in os.scandir('/old'):
    here = '/' + entry.name
    if entry.is_symlink() and not os.path.lexists(here):
      os.symlink(os.readlink(entry.path), here)
  os.mkdir(BOX)
  _mount(
    libc, 'tmpfs', BOX, 'tmpfs', tied, f'size={size},nr_inodes=1024,mode=777'
  )
  os.chdir(BOX)
  _checked(libc.umount2(b'/old', _DETACH), 'to leave the old root')
  os.rmdir('/old')
  _mount(libc, None, '/', None, _REMOUNT | _BIND | _READ_ONLY | tied)
  libc.sethostname(b'box', 3)


def release() -> tuple[int, int]:
  """Returns the version of Linux."""
  first, second = os.uname().release.split('.')[:2]
  return int(first), int(second.partition('-')[0].rstrip('+'))


def keep(libc: ctypes.CDLL, folder: str, size: int, processes: int) -> None:
  """Makes the file system read-only except for `folder`.

  Modes, owners and times of other files cannot be changed either. `/proc` shows
  the processes inside and no keys, `/dev/shm` is a private one of `size` bytes.

  Args:
    libc: the C library, with errno.
    folder: writable.
    size: bytes of `/dev/shm`.
    processes: limit, threads included; older kernels have one limit for the
      whole machine, which is left unchanged.

  Raises:
    OSError: the system does not allow it.
  """
  tied = _NO_SUID | _NO_DEVICES
  _mount(libc, None, '/', None, _RECURSIVE | _PRIVATE)
  _mount(libc, 'proc', '/proc', 'proc', tied | _NO_EXEC)
  for path in filter(os.path.exists, _KEYS):
    _mount(libc, '/dev/null', path, None, _BIND)
  if release() >= (6, 14):
    with contextlib.suppress(OSError):
      _write('/proc/sys/kernel/pid_max', str(processes))
  _mount(libc, folder, folder, None, _BIND)
  if os.path.isdir(SHARED):
    _mount(libc, 'tmpfs', SHARED, 'tmpfs', tied, f'size={size},mode=1777')
  _set_read_only(libc, '/', True)
  for path in filter(os.path.isdir, (folder, SHARED)):
    _set_read_only(libc, path, False)
  os.chdir(os.getcwd())  # the folder, if it was that, is another one now


def _set_read_only(libc: ctypes.CDLL, path: str, value: bool) -> None:
  """Sets the mount at the path, and if read-only all below it."""
  to_set = (_READ_ONLY, 0) if value else (0, _READ_ONLY)
  attributes = struct.pack('4Q', *to_set, 0, 0)
  result = libc.syscall(
    _SET_ATTRIBUTES,
    _HERE,
    path.encode(),
    _BELOW if value else 0,
    attributes,
    ctypes.c_size_t(len(attributes)),
  )
  _checked(result, f'to keep {path}')


def _mount(libc, source, target, kind, flags, options='') -> None:
  given = (x and x.encode() for x in (source, target, kind))
  result = libc.mount(*given, ctypes.c_ulong(flags), options.encode())
  _checked(result, f'to mount {target}')


def _show(libc: ctypes.CDLL, path: str) -> None:
  """Binds old/path to path, read-only; keeps the mount's restrictions."""
  source = '/old' + path
  if os.path.isdir(source):
    os.makedirs(path, exist_ok=True)
  else:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o444))
  _mount(libc, source, path, None, _BIND)
  has = os.statvfs(path).f_flag
  flags = has & _KEPT | (_RELATIVE[1] if has & _RELATIVE[0] else 0)
  _mount(
    libc, None, path, None, _REMOUNT | _BIND | _READ_ONLY | _NO_SUID | flags
  )
