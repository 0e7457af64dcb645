"""The system calls that jailed code may make, as a filter for the kernel.

What is not listed does not exist for the code: no sockets, no new processes,
no mounts, no tracing, no namespaces, no kernel keys, no shared memory. Nor does
the code lock or watch a file, or wait for one in memory: others, who can read
the same file, would see it.
"""

import errno
import os

from agentrl.tool.sandbox.native.bpf import (
  CLONE_NEW,
  allow,
  entry,
  judged,
  masked,
  numbers,
  one_of,
  refuse,
  where,
  word,
)

# Numbers on x86_64 and aarch64; -: the call does not exist there.
_ALWAYS = """
read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67,
pwrite64 18 68, close 3 57, lseek 8 62, sendfile 40 71,
dup 32 23, dup2 33 -, dup3 292 24, pipe 22 -, pipe2 293 59, poll 7 -,
ppoll 271 73, select 23 -, pselect6 270 72, epoll_create1 291 20,
epoll_ctl 233 21, epoll_wait 232 -, epoll_pwait 281 22, eventfd2 290 19,
stat 4 -, lstat 6 -, fstat 5 80, newfstatat 262 79, statx 332 291,
statfs 137 43, fstatfs 138 44, access 21 -, faccessat 269 48,
faccessat2 439 439, readlink 89 -, readlinkat 267 78, getcwd 79 17,
chdir 80 49, fchdir 81 50, getdents64 217 61, umask 95 166,
mmap 9 222, munmap 11 215, mprotect 10 226, mremap 25 216, madvise 28 233,
brk 12 214, rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139,
rt_sigpending 127 136, rt_sigtimedwait 128 137, sigaltstack 131 132,
set_robust_list 273 99, get_robust_list 274 100, rseq 334 293,
set_tid_address 218 96, sched_yield 24 124, sched_getaffinity 204 123,
gettid 186 178, getpid 39 172, getppid 110 173, getuid 102 174,
geteuid 107 175, getgid 104 176, getegid 108 177, getgroups 115 158,
getresuid 118 148, getresgid 120 150, getpgrp 111 -, getpgid 121 155,
getsid 124 156, uname 63 160, sysinfo 99 179, times 100 153, getrusage 98 165,
getrlimit 97 163, clock_gettime 228 113, clock_getres 229 114,
clock_nanosleep 230 115, nanosleep 35 101, gettimeofday 96 169, time 201 -,
getitimer 36 102, setitimer 38 103, alarm 37 -, pause 34 -, getrandom 318 278,
restart_syscall 219 128, arch_prctl 158 -, exit 60 93, exit_group 231 94
"""
# Changes to files: only where the code has a folder of its own.
_CHANGES = """
open 2 -, openat 257 56, mkdir 83 -, mkdirat 258 34, rmdir 84 -, unlink 87 -,
unlinkat 263 35, rename 82 -, renameat 264 38, renameat2 316 276, link 86 -,
linkat 265 37, symlink 88 -, symlinkat 266 36, truncate 76 45,
ftruncate 77 46, fallocate 285 47, fsync 74 82, fdatasync 75 83,
chmod 90 -, fchmod 91 52, fchmodat 268 53, utimensat 280 88,
copy_file_range 326 285
"""
# Allowed with some arguments only, or refused with a telling error.
_SPECIAL = """
open 2 -, openat 257 56, clone 56 220, fork 57 -, vfork 58 -, clone3 435 435,
openat2 437 437, kill 62 129, tgkill 234 131, ioctl 16 29, prlimit64 302 261,
socket 41 198, connect 42 203, socketpair 53 199, sendto 44 206,
recvfrom 45 207, memfd_create 319 279, fcntl 72 25,
flock 73 32, futex 202 98
"""
_CLONE_THREAD = 0x10000
_CHANGING = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_IOCTLS = (0x5401, 0x541B, 0x5421, 0x5450, 0x5451)  # is it a tty, nonblock, ...
# Duplicates, flags and who holds a lock (F_GETLK). Not an owner (F_SETOWN), who
# would be sent signals, a lease, a notice, or a lock of an open file (F_OFD_*).
_FCNTLS = (0, 1, 2, 3, 4, 5, 1030)
# F_SETLK, F_SETLKW: the lock of a process never holds that process back, and
# nobody else is to see it. It is granted and kept nowhere; SQLite needs it.
_LOCKS = (6, 7)
_PRIVATE, _WAKE = 128, 1  # of futex


def _rules(folder: bool) -> dict[str, bytes]:
  """Makes filters of calls allowed with some arguments only: name -> program.

  The process may signal itself and start threads. A missing call is refused
  as such where libc then takes an older one that can be judged, and where
  programs ask for it (flock) and can do without.

  A futex that is not private belongs to a file where one is mapped, even only
  to read, and any process with that file can be woken by it. Nobody waits for
  such: pthread_join asks again (EAGAIN) until its thread has ended.
  """
  me = (os.getpid(),)
  to_nobody = word(4, high=True) + where((0,), allow())
  to_nobody = word(4) + where((0,), to_nobody)
  locks = word(1) + where(_LOCKS, refuse(0))
  private = word(1, _PRIVATE) + where((_PRIVATE,), allow())
  out = {
    'clone': masked(0, _CLONE_THREAD | CLONE_NEW, _CLONE_THREAD, errno.EAGAIN),
    'fork': refuse(errno.EAGAIN),
    'vfork': refuse(errno.EAGAIN),
    'clone3': refuse(errno.ENOSYS),
    'openat2': refuse(errno.ENOSYS),
    'memfd_create': refuse(errno.ENOSYS),
    'kill': one_of(0, me, errno.EPERM),
    'tgkill': one_of(0, me, errno.EPERM),
    'ioctl': one_of(1, _IOCTLS, errno.ENOTTY),
    'fcntl': locks + one_of(1, _FCNTLS, errno.EPERM),
    'flock': refuse(errno.ENOSYS),
    'futex': private + one_of(1, (_WAKE,), errno.EAGAIN),
    'prlimit64': one_of(0, (0,), errno.EPERM),
    'socket': refuse(errno.ENETUNREACH),
    'connect': refuse(errno.ENETUNREACH),
    'socketpair': one_of(0, (1,), errno.ENETUNREACH),  # asyncio needs a pair
    'sendto': to_nobody + refuse(errno.ENETUNREACH),
    'recvfrom': allow(),
  }
  if not folder:
    out['open'] = masked(1, _CHANGING, os.O_RDONLY, errno.EROFS)
    out['openat'] = masked(2, _CHANGING, os.O_RDONLY, errno.EROFS)
  return out


def program(machine: str, folder: bool) -> bytes:
  """Returns the filter as instructions of classic BPF, 8 bytes each.

  Args:
    machine: 'x86_64' or 'aarch64'.
    folder: whether the code may change files (what it can reach is decided
      elsewhere); otherwise no file can be opened for writing.
  """
  special = numbers(_SPECIAL, machine)
  plain = numbers(_ALWAYS + (',' + _CHANGES if folder else ''), machine)
  out = entry(machine) + judged(_rules(folder), special)
  for number in plain.values():
    out += where((number,), allow())
  return out + refuse(errno.EPERM)
