"""The filter, run by an interpreter of our own, for both machines."""

import errno
import os

import pytest

from agentrl.tool.sandbox.native import bpf, seccomp
from tests.tool.sandbox.native import filters
from tests.tool.sandbox.native.filters import ALLOW, GRANTED, KILL

EVERY = ','.join((seccomp._ALWAYS, seccomp._CHANGES, seccomp._SPECIAL))
by_machine = pytest.mark.parametrize('machine', bpf.MACHINES)


def judge(machine, number, args=(), *, folder=True, arch=None):
  program = seccomp.program(machine, folder)
  return filters.judge(program, arch or filters.arch(machine), number, args)


@by_machine
def test_the_numbers_are_the_kernel_s(machine):
  ours = bpf.numbers(EVERY, machine)
  assert len(ours) > 100
  # What only older machines have stands nowhere in the table of newer ones.
  assert ours == filters.of_kernel(machine, ours)


@by_machine
@pytest.mark.parametrize('folder', [True, False])
def test_what_is_not_listed_is_refused(machine, folder):
  listed = set(bpf.numbers(EVERY, machine).values())
  always = set(bpf.numbers(seccomp._ALWAYS, machine).values())
  for number in range(600):
    said = judge(machine, number, folder=folder)
    if number not in listed:
      assert said == errno.EPERM
    elif number in always:
      assert said == ALLOW


@by_machine
def test_other_tables_of_calls_are_deadly(machine):
  number = bpf.numbers(EVERY, machine)['read']
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
  number = bpf.numbers(EVERY, machine)[name]
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
  calls = bpf.numbers(EVERY, machine)
  assert judge(machine, calls['openat'], (3, 1, flags), folder=False) == want
  for name in ('mkdirat', 'unlinkat', 'fchmodat', 'ftruncate', 'renameat2'):
    assert judge(machine, calls[name], folder=False) == errno.EPERM
