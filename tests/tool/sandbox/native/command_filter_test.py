"""The filter of a command, run by an interpreter, for both machines."""

import errno

import pytest

from agentrl.tool.sandbox.native import bpf, command_filter
from tests.tool.sandbox.native import filters
from tests.tool.sandbox.native.filters import ALLOW, KILL

TABLES = ','.join(
  value
  for name, value in vars(command_filter).items()
  if isinstance(value, str) and name.isupper()
)
by_machine = pytest.mark.parametrize('machine', bpf.MACHINES)


def judge(machine, name, args=(), apart=False):
  """What is said to a call; None: the machine does not have it."""
  numbers = bpf.numbers(TABLES, machine)
  if name not in numbers:
    return None
  program = command_filter.program(machine, apart)
  return filters.judge(program, filters.arch(machine), numbers[name], args)


@by_machine
def test_the_numbers_are_the_kernel_s(machine):
  ours = bpf.numbers(TABLES, machine)
  known = filters.of_kernel(machine, ours)
  assert len(known) > 50
  assert {name: ours[name] for name in known} == known


@by_machine
@pytest.mark.parametrize('apart', [True, False])
def test_all_other_calls_are_allowed_and_other_tables_deadly(machine, apart):
  program = command_filter.program(machine, apart)
  arch, named = filters.arch(machine), bpf.numbers(TABLES, machine).values()
  for number in range(600):
    if number not in named:
      assert filters.judge(program, arch, number) == ALLOW
  assert filters.judge(program, arch, 0x40000000 | 1) == KILL
  assert filters.judge(program, 0x40000003, 1) == KILL


VICTIM = 4321
BY_NUMBER = [
  ('prlimit64', 0, ()),
  ('sched_setparam', 0, ()),
  ('sched_setscheduler', 0, ()),
  ('sched_setaffinity', 0, ()),
  ('sched_setattr', 0, ()),
  ('setpriority', 1, (0,)),
  ('ioprio_set', 1, (1,)),
]


@by_machine
@pytest.mark.parametrize(('name', 'at', 'before'), BY_NUMBER)
@pytest.mark.parametrize(
  'number', [1, VICTIM, -1 & (1 << 64) - 1, 1 << 31, VICTIM | 1 << 32]
)
def test_without_namespaces_it_acts_on_itself(
  machine, name, at, before, number
):
  """The kernel reads the low word alone, and so does the filter."""
  assert len(before) == at
  assert judge(machine, name, (*before, number)) == errno.EPERM
  assert judge(machine, name, (*before, 0)) == ALLOW
  assert judge(machine, name, (*before, 1 << 32)) == ALLOW
  assert judge(machine, name, (*before, number), apart=True) == ALLOW


@by_machine
@pytest.mark.parametrize('name', ['setpriority', 'ioprio_set'])
@pytest.mark.parametrize('kind', [0, 1, 2, 3])
def test_groups_and_users_are_no_process(machine, name, kind):
  own = {'setpriority': 0, 'ioprio_set': 1}[name]
  want = ALLOW if kind == own else errno.EPERM
  assert judge(machine, name, (kind, 0)) == want


@by_machine
@pytest.mark.parametrize('apart', [True, False])
@pytest.mark.parametrize(
  ('name', 'args', 'want'),
  [
    ('socket', (2, 1, 0), ALLOW),
    ('socket', (10, 1 | 0o2000000, 6), ALLOW),
    ('socket', (2, 2, 0), errno.EACCES),
    ('socket', (1, 1, 0), errno.EAFNOSUPPORT),
    ('socket', (2, 1, 132), errno.EPROTONOSUPPORT),
    ('socket', (2, 1, 262), errno.EPROTONOSUPPORT),
    ('socketpair', (1, 1, 0), ALLOW),
    ('socketpair', (1, 2, 0), errno.EACCES),
    ('sendto', (3, 1, 1, 0), ALLOW),
    ('sendto', (3, 1, 1, 0x20000000), errno.EOPNOTSUPP),
    ('sendmsg', (3, 1, 0x20000000), errno.EOPNOTSUPP),
    ('sendmmsg', (3, 1, 1, 0x20000040), errno.EOPNOTSUPP),
    ('setsockopt', (3, 6, 31), errno.ENOENT),
    ('setsockopt', (3, 6, 1), ALLOW),
    ('setsockopt', (3, 1, 31), ALLOW),
    ('listen', (3, 1), errno.EACCES),
    ('clone', (0x3D0F00,), ALLOW),  # as libc starts a thread
    ('clone', (17,), ALLOW),  # a process
    ('clone', (17 | 0x10000000,), errno.EPERM),
    ('unshare', (0x400,), ALLOW),
    ('unshare', (0x00020000,), errno.EPERM),
    ('unshare', (0x80,), errno.EPERM),
    ('clone3', (), errno.ENOSYS),
    ('setns', (3, 0), errno.EPERM),
    ('fcntl', (3, 8, VICTIM), ALLOW),  # Landlock keeps its signals
    ('fcntl', (3, 7), ALLOW),
    ('fcntl', (3, 1024), errno.EPERM),
    ('fcntl', (3, 1026 | 1 << 32), errno.EPERM),
    ('ioctl', (0, 0x5401), ALLOW),
    ('ioctl', (0, 0x541B), ALLOW),
    ('ioctl', (0, 0x5412), errno.EPERM),
    ('ioctl', (0, 0x541C | 1 << 32), errno.EPERM),
    ('ioctl', (0, 0x40086602), errno.ENOTTY),
    ('ioctl', (0, 0x401C5820), errno.ENOTTY),
    ('ioctl', (0, 0x5000940F), errno.ENOTTY),
    ('setxattr', (), errno.EOPNOTSUPP),
    ('keyctl', (), errno.ENOSYS),
    ('bpf', (), errno.ENOSYS),
    ('io_uring_setup', (), errno.ENOSYS),
    ('inotify_init1', (), errno.EMFILE),
    ('open_by_handle_at', (), errno.EPERM),
    ('mount', (), errno.EPERM),
  ],
)
def test_arguments_decide(machine, apart, name, args, want):
  assert judge(machine, name, args, apart) == want


@by_machine
@pytest.mark.parametrize('name', ['shmget', 'semop', 'msgrcv', 'mq_open'])
def test_what_outlives_it_needs_namespaces(machine, name):
  assert judge(machine, name) == errno.ENOSYS
  assert judge(machine, name, apart=True) == ALLOW
