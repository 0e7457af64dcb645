"""The filter, run by an interpreter of our own, for both machines."""

import errno
import os
import pathlib
import re
import struct

import pytest

from agentrl.tool.sandbox.native import seccomp

ARCH = {'x86_64': 0xC000003E, 'aarch64': 0xC00000B7}
ALLOW, KILL, GRANTED = 'allow', 'kill', 0  # granted: by no kernel
HEADERS = {
  'x86_64': '/usr/include/x86_64-linux-gnu/asm/unistd_64.h',
  'aarch64': '/usr/include/asm-generic/unistd.h',
}
EVERY = ','.join((seccomp._ALWAYS, seccomp._CHANGES, seccomp._SPECIAL))
by_machine = pytest.mark.parametrize('machine', ARCH)


def judge(machine, number, args=(), *, folder=True, arch=None):
  """'allow', 'kill' or the error that the kernel would give, 0 being none."""
  data = struct.pack('iIQ', number, arch or ARCH[machine], 0)
  data += struct.pack('6Q', *(list(args) + [0] * 6)[:6])
  program = seccomp.program(machine, folder)
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


@by_machine
def test_the_numbers_are_the_kernel_s(machine):
  header = pathlib.Path(HEADERS[machine])
  if not header.exists():
    pytest.skip('no headers of the kernel here')
  found = re.findall(
    r'#define __NR(?:3264)?_(\w+) (\d+)', header.read_text(encoding='utf-8')
  )
  known = {name: int(number) for name, number in found}
  known['newfstatat'] = known.get('newfstatat', known.get('fstatat'))
  ours = seccomp.numbers(EVERY, machine)
  assert len(ours) > 100
  # What only older machines have stands nowhere in the table of newer ones.
  assert ours == {name: known[name] for name in ours}


@by_machine
@pytest.mark.parametrize('folder', [True, False])
def test_what_is_not_listed_is_refused(machine, folder):
  listed = set(seccomp.numbers(EVERY, machine).values())
  always = set(seccomp.numbers(seccomp._ALWAYS, machine).values())
  for number in range(600):
    said = judge(machine, number, folder=folder)
    if number not in listed:
      assert said == errno.EPERM
    elif number in always:
      assert said == ALLOW


@by_machine
def test_other_tables_of_calls_are_deadly(machine):
  number = seccomp.numbers(EVERY, machine)['read']
  assert judge(machine, number) == ALLOW
  assert judge(machine, number, arch=0x40000003) == KILL
  assert judge(machine, number | 0x40000000) == KILL


@by_machine
@pytest.mark.parametrize(
  ('name', 'args', 'want'),
  [
    ('clone', (0x3D0F00,), ALLOW),  # as libc starts a thread
    ('clone', (17,), errno.EAGAIN),
    ('clone', (0x3D0F00 | 0x10000000,), errno.EAGAIN),
    ('clone', (0x3D0F00 | 0x80,), errno.EAGAIN),
    ('clone3', (), errno.ENOSYS),
    ('kill', (os.getpid(), 9), ALLOW),
    ('kill', (os.getppid(), 9), errno.EPERM),
    ('kill', (2**32 - 1, 9), errno.EPERM),
    ('kill', (0, 9), errno.EPERM),
    ('fcntl', (3, 2), ALLOW),
    ('fcntl', (3, 8), errno.EPERM),
    ('fcntl', (3, 15), errno.EPERM),
    ('fcntl', (3, 5), ALLOW),  # F_GETLK
    ('fcntl', (3, 6), GRANTED),  # F_SETLK
    ('fcntl', (3, 7 | 1 << 32), GRANTED),  # F_SETLKW; the kernel reads a word
    ('fcntl', (3, 36), errno.EPERM),  # F_OFD_*
    ('fcntl', (3, 37), errno.EPERM),
    ('fcntl', (3, 38), errno.EPERM),
    ('fcntl', (3, 1024), errno.EPERM),  # F_SETLEASE
    ('fcntl', (3, 1026), errno.EPERM),  # F_NOTIFY
    ('flock', (3, 2), errno.ENOSYS),
    ('futex', (1, 128), ALLOW),  # a private one
    ('futex', (1, 128 | 9 | 256), ALLOW),
    ('futex', (1, 1), ALLOW),  # wakes those that may not wait
    ('futex', (1, 0), errno.EAGAIN),
    ('futex', (1, 9 | 256), errno.EAGAIN),
    ('futex', (1, 3), errno.EAGAIN),
    ('ioctl', (1, 0x5401), ALLOW),
    ('ioctl', (1, 0x5412), errno.ENOTTY),
    ('prlimit64', (0, 7), ALLOW),
    ('prlimit64', (1, 7), errno.EPERM),
    ('socket', (1, 1), errno.ENETUNREACH),
    ('socketpair', (1, 1), ALLOW),
    ('socketpair', (2, 1), errno.ENETUNREACH),
    ('sendto', (3, 1, 1, 0, 0, 0), ALLOW),
    ('sendto', (3, 1, 1, 0, 1, 9), errno.ENETUNREACH),
    ('sendto', (3, 1, 1, 0, 1 << 32, 9), errno.ENETUNREACH),
    ('openat', (3, 1, os.O_RDWR | os.O_CREAT), ALLOW),
  ],
)
def test_arguments_decide(machine, name, args, want):
  number = seccomp.numbers(EVERY, machine)[name]
  assert judge(machine, number, args) == want


@by_machine
@pytest.mark.parametrize(
  ('flags', 'want'),
  [
    (os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY, ALLOW),
    (os.O_WRONLY, errno.EROFS),
    (os.O_RDWR, errno.EROFS),
    (os.O_RDONLY | os.O_CREAT, errno.EROFS),
    (os.O_RDONLY | os.O_TRUNC, errno.EROFS),
    (os.O_TMPFILE | os.O_RDWR, errno.EROFS),
  ],
)
def test_without_a_folder_files_are_opened_to_read_only(machine, flags, want):
  calls = seccomp.numbers(EVERY, machine)
  assert judge(machine, calls['openat'], (3, 1, flags), folder=False) == want
  for name in ('mkdirat', 'unlinkat', 'fchmodat', 'ftruncate', 'renameat2'):
    assert judge(machine, calls[name], folder=False) == errno.EPERM
