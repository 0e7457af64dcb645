"""The system calls that a command may not make, as a filter for the kernel.

All others are allowed. It holds what Landlock knows nothing of: sockets but
TCP's, data sent with the request for a connection, io_uring, kernel keys, the
scheduler, limits and memory of others, and what all processes of a user or of
the machine have in common and one of them can use up.
"""

import errno

from agentrl.tool.sandbox.native.bpf import (
  CLONE_NEW,
  allow,
  entry,
  judged,
  masked,
  numbers,
  one_of,
  refuse,
  unless,
  where,
  word,
)

# Numbers on x86_64 and aarch64; -: the call does not exist there.
_ARGUMENTS = """
socket 41 198, socketpair 53 199, sendto 44 206, sendmsg 46 211,
sendmmsg 307 269, clone 56 220, unshare 272 97, fcntl 72 25,
ioctl 16 29, setsockopt 54 208
"""
# Programs take an older call instead, or do without.
_MISSING = """
io_uring_setup 425 425, clone3 435 435, add_key 248 217, request_key 249 218,
keyctl 250 219, bpf 321 280, perf_event_open 298 241, userfaultfd 323 282,
io_setup 206 0, fanotify_init 300 262
"""
_FORBIDDEN = """
setns 308 268, open_by_handle_at 304 265, mount 165 40, umount2 166 39,
pivot_root 155 41, chroot 161 51, open_tree 428 428, move_mount 429 429,
fsopen 430 430, fspick 433 433, mount_setattr 442 442
"""
_WATCHES = 'inotify_init 253 -, inotify_init1 294 26'
# Of files that it can only read, too.
_ATTRIBUTES = """
setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, removexattr 197 14,
lremovexattr 198 15, fremovexattr 199 16, setxattrat 463 463,
removexattrat 466 466, file_setattr 469 469
"""
_PORTS = 'listen 50 201'  # without a bind, which Landlock would refuse
# What it shares with the rest of the machine unless it has namespaces of its
# own: processes by number ...
_BY_NUMBER = """
prlimit64 302 261, sched_setparam 142 118, sched_setscheduler 144 119,
sched_setaffinity 203 122, sched_setattr 314 274, setpriority 141 140,
ioprio_set 251 30
"""
# ... and objects of System V and message queues, which outlive it.
_OBJECTS = """
shmget 29 194, shmat 30 196, shmctl 31 195, semget 64 190, semop 65 193,
semctl 66 191, semtimedop 220 192, msgget 68 186, msgsnd 69 189,
msgrcv 70 188, msgctl 71 187, mq_open 240 180, mq_unlink 241 181
"""
_IP = 2, 10  # families of addresses
_KIND, _STREAM, _TCP = 15, 1, 6  # of a socket, without its flags; protocol
_FAST_OPEN = 0x20000000  # a flag of what is sent
_LAYER = 31  # TCP_ULP, by which a socket of TCP becomes one of SMC
_PROCESS = 1  # of ioprio_set; 0 of setpriority
_FOR_OTHERS = 1024, 1026  # F_SETLEASE and F_NOTIFY of fcntl
_KINDS = 0xFF00  # bits of an ioctl that name what it is for
_FILE_SYSTEMS = tuple(ord(x) << 8 for x in 'fvX\x94\xf5')
_TYPING = 0x5412, 0x541C  # TIOCSTI and TIOCLINUX: as if at the keyboard


def program(machine: str, apart: bool) -> bytes:
  """Returns the filter as instructions of classic BPF.

  Args:
    machine: 'x86_64' or 'aarch64'.
    apart: whether the command has namespaces of its own; what they keep from
      it, or give it one of its own of, is then allowed.
  """
  rules = _sockets() | _always() | ({} if apart else _in_common())
  tables = [_ARGUMENTS, _MISSING, _FORBIDDEN, _WATCHES, _ATTRIBUTES, _PORTS]
  tables += [_BY_NUMBER, _OBJECTS]
  calls = numbers(','.join(tables), machine)
  return entry(machine) + judged(rules, calls) + allow()


def _sockets() -> dict[str, bytes]:
  """Allows TCP alone: Landlock judges where it connects, and nothing else."""
  stream = word(1, _KIND) + unless((_STREAM,), errno.EACCES)
  family = word(0) + unless(_IP, errno.EAFNOSUPPORT)
  protocol = one_of(2, (0, _TCP), errno.EPROTONOSUPPORT)
  layer = word(2) + where((_LAYER,), refuse(errno.ENOENT))
  return {
    'socket': family + stream + protocol,
    'socketpair': stream + allow(),
    'setsockopt': word(1) + where((_TCP,), layer) + allow(),
    'sendto': masked(3, _FAST_OPEN, 0, errno.EOPNOTSUPP),
    'sendmsg': masked(2, _FAST_OPEN, 0, errno.EOPNOTSUPP),
    'sendmmsg': masked(3, _FAST_OPEN, 0, errno.EOPNOTSUPP),
  }


def _always() -> dict[str, bytes]:
  """Forbids namespaces, keys, and what all programs have too few of."""
  apart = masked(0, CLONE_NEW, 0, errno.EPERM)
  lease = word(1) + where(_FOR_OTHERS, refuse(errno.EPERM))
  typing = word(1) + where(_TYPING, refuse(errno.EPERM))
  flags = word(1, _KINDS) + where(_FILE_SYSTEMS, refuse(errno.ENOTTY))
  return (
    {'clone': apart, 'unshare': apart, 'fcntl': lease + allow()}
    | {'ioctl': typing + flags + allow()}
    | _each(_MISSING, errno.ENOSYS)
    | _each(_FORBIDDEN, errno.EPERM)
    | _each(_WATCHES, errno.EMFILE)
    | _each(_ATTRIBUTES, errno.EOPNOTSUPP)
    | _each(_PORTS, errno.EACCES)
  )


def _in_common() -> dict[str, bytes]:
  """Acts on the process itself, named 0: it cannot know its children."""
  itself = one_of(0, (0,), errno.EPERM)
  second = one_of(1, (0,), errno.EPERM)
  return (
    dict.fromkeys(_names(_BY_NUMBER), itself)
    | {
      'setpriority': word(0) + unless((0,), errno.EPERM) + second,
      'ioprio_set': word(0) + unless((_PROCESS,), errno.EPERM) + second,
    }
    | _each(_OBJECTS, errno.ENOSYS)
  )


def _names(table: str) -> list[str]:
  return [row.split()[0] for row in table.split(',')]


def _each(table: str, error: int) -> dict[str, bytes]:
  return dict.fromkeys(_names(table), refuse(error))
