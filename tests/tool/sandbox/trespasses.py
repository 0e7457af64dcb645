"""Programs that reach what is not theirs, by calls that libc may not have.

It is run in a sandbox with a description of the host as JSON, and prints what
each program reached: {name: True, or why it did not}. The host is looked at
too, since what works and says that it failed harms as well.

  victim    a process of the same user, and `group`, its process group
  trainer   another one, above the sandbox
  secret    a word in the victim's environment and in what follows
  canary    a file that the user owns, in a folder that the user owns
  private   a file that another user alone may read
  pipe      a FIFO beside it; unix, abstract, data: sockets; port: allowed,
  other     and another port; both answer at all addresses
  terminal  a terminal of the user
  key       of objects of System V, of which each kind is there; `free`: not yet
  shared    the name of a file in /dev/shm; `queue`: of a POSIX queue
"""

import ctypes
import fcntl
import json
import mmap
import os
import pathlib
import resource
import signal
import socket
import struct
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
PROGRAMS = {}
# Calls of x86_64.
CALL = dict(
  clone=56,
  fcntl=72,
  ptrace=101,
  sched_setparam=142,
  sched_setscheduler=144,
  mount=165,
  umount2=166,
  tkill=200,
  sched_setaffinity=203,
  io_setup=206,
  timer_create=222,
  tgkill=234,
  mq_open=240,
  mq_unlink=241,
  add_key=248,
  request_key=249,
  keyctl=250,
  ioprio_set=251,
  inotify_init=253,
  migrate_pages=256,
  get_robust_list=274,
  move_pages=279,
  inotify_init1=294,
  rt_tgsigqueueinfo=297,
  perf_event_open=298,
  fanotify_init=300,
  prlimit64=302,
  name_to_handle_at=303,
  open_by_handle_at=304,
  setns=308,
  process_vm_readv=310,
  process_vm_writev=311,
  kcmp=312,
  sched_setattr=314,
  bpf=321,
  userfaultfd=323,
  rt_sigqueueinfo=129,
  pidfd_send_signal=424,
  io_uring_setup=425,
  open_tree=428,
  fsopen=430,
  pidfd_open=434,
  clone3=435,
  pidfd_getfd=438,
  process_madvise=440,
  mount_setattr=442,
  process_mrelease=448,
  shmget=29,
  shmat=30,
  shmctl=31,
  semget=64,
  semctl=66,
  msgget=68,
  msgrcv=70,
  msgctl=71,
  setpriority=141,
  clock_settime=227,
  mknodat=259,
  unshare=272,
  iopl=172,
  chroot=161,
  listen=50,
)


def call(name, *args):
  """-> what the system call gives; raises OSError."""
  args = [ctypes.c_long(x) if isinstance(x, int) else x for x in args]
  result = libc.syscall(ctypes.c_long(CALL[name]), *args)
  if result < 0:
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
  return result


def program(run):
  """A program reaches something unless it raises, or gives False."""
  PROGRAMS[run.__name__] = run
  return run


def each(prefix, **runs):
  for name, run in runs.items():
    PROGRAMS[f'{prefix}_{name}'] = run


def victim():
  return GIVEN['victim']


def seen(text):
  text = text.encode() if isinstance(text, str) else text
  return GIVEN['secret'].encode() in text


def read(path):
  with open(path, 'rb') as file:
    return file.read(1 << 16)


def wrote(path, text):
  with open(path, 'w') as file:
    file.write(text)
  return True


def done(*_):
  return True


# Other processes, by their numbers.


def limits(kind, most):
  return call('prlimit64', victim(), kind, struct.pack('QQ', most, most), None)


def of_pidfd(name, *args):
  return call(name, call('pidfd_open', victim(), 0), *args)


def info(code=-1):
  """A struct siginfo of SIGKILL, queued by nobody."""
  return struct.pack('iii116x', 9, 0, code)


def copy_memory(name):
  """Eight bytes of the victim's program, from there or to there."""
  held = ctypes.create_string_buffer(8)
  here = struct.pack('PN', ctypes.addressof(held), 8)
  there = struct.pack('PN', 0x400000, 8)
  return done(call(name, victim(), here, 1, there, 1, 0))


def count(process, processor):
  """Counts the time of a process or of a processor."""
  event = struct.pack('IIQ112x', 1, 128, 0)
  return done(call('perf_event_open', event, process, processor, -1, 0))


def signal_by(owner):
  """SIGKILL to the owner of a pipe once something is in it."""
  left, right = os.pipe()
  owner(left)
  fcntl.fcntl(left, 10, 9)  # F_SETSIG
  fcntl.fcntl(left, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
  os.write(right, b'x')
  time.sleep(0.05)
  return not os.path.exists(f'/proc/{victim()}')


def signal_by_socket():
  """The same, by a socket's own way to name it."""
  left, right = socket.socketpair()
  fcntl.ioctl(left, 0x8902, struct.pack('i', victim()))  # SIOCSPGRP
  fcntl.fcntl(left, 10, 9)
  fcntl.fcntl(left, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
  right.send(b'x')
  time.sleep(0.05)
  return not os.path.exists(f'/proc/{victim()}')


each(
  'process',
  limit_computing=lambda: done(limits(0, 1)),
  limit_files=lambda: done(limits(7, 3)),
  limit_file_size=lambda: done(limits(1, 0)),
  limit_by_python=lambda: done(
    resource.prlimit(victim(), resource.RLIMIT_NOFILE, (3, 3))
  ),
  nice=lambda: done(os.setpriority(os.PRIO_PROCESS, victim(), 19)),
  nice_group=lambda: done(os.setpriority(os.PRIO_PGRP, GIVEN['group'], 19)),
  nice_user=lambda: (
    os.setpriority(os.PRIO_USER, GIVEN['user'], 1) or not apart()
  ),
  nice_self_as_user=lambda: os.setpriority(os.PRIO_USER, 0, 1) or not apart(),
  nice_high_words=lambda: done(
    call('setpriority', 1 << 32, victim() | 1 << 32, 19)
  ),
  affinity=lambda: done(os.sched_setaffinity(victim(), {0})),
  affinity_high_word=lambda: done(
    call('sched_setaffinity', victim() | 1 << 32, 8, b'\1' + bytes(7))
  ),
  scheduler=lambda: done(
    os.sched_setscheduler(victim(), os.SCHED_IDLE, os.sched_param(0))
  ),
  scheduler_param=lambda: done(call('sched_setparam', victim(), bytes(4))),
  scheduler_attributes=lambda: done(
    call('sched_setattr', victim(), struct.pack('IIQiIQQQ', 48, 5, *[0] * 6), 0)
  ),
  disk_priority=lambda: done(call('ioprio_set', 1, victim(), 3 << 13)),
  disk_priority_group=lambda: done(
    call('ioprio_set', 2, GIVEN['group'], 3 << 13)
  ),
  kill_zero=lambda: done(os.kill(victim(), 0)),
  kill=lambda: done(os.kill(victim(), 9)),
  stop=lambda: done(os.kill(victim(), signal.SIGSTOP)),
  kill_trainer_zero=lambda: done(os.kill(GIVEN['trainer'], 0)),
  kill_group=lambda: done(os.killpg(GIVEN['group'], 9)),
  tkill=lambda: done(call('tkill', victim(), 9)),
  tgkill=lambda: done(call('tgkill', victim(), victim(), 9)),
  queue_signal=lambda: done(call('rt_sigqueueinfo', victim(), 9, info())),
  queue_signal_to_thread=lambda: done(
    call('rt_tgsigqueueinfo', victim(), victim(), 9, info())
  ),
  signal_by_descriptor=lambda: done(of_pidfd('pidfd_send_signal', 9, None, 0)),
  signal_as_owner=lambda: signal_by(lambda x: fcntl.fcntl(x, 8, victim())),
  signal_as_owner_group=lambda: signal_by(
    lambda x: fcntl.fcntl(x, 8, -GIVEN['group'])
  ),
  signal_as_owner_thread=lambda: signal_by(
    lambda x: fcntl.fcntl(x, 15, struct.pack('ii', 0, victim()))
  ),
  signal_as_owner_socket=signal_by_socket,
  timer_for_thread=lambda: done(
    call('timer_create', 1, struct.pack('Piii44x', 0, 9, 4, victim()), bytes(4))
  ),
  trace=lambda: done(call('ptrace', 16, victim(), 0, 0)),
  seize=lambda: done(call('ptrace', 0x4206, victim(), 0, 0)),
  read_memory=lambda: copy_memory('process_vm_readv'),
  write_memory=lambda: copy_memory('process_vm_writev'),
  advise_memory=lambda: done(
    of_pidfd('process_madvise', struct.pack('PN', 0x400000, 4096), 1, 20, 0)
  ),
  release_memory=lambda: done(of_pidfd('process_mrelease', 0)),
  compare=lambda: done(call('kcmp', os.getpid(), victim(), 0, 0, 0)),
  descriptor=lambda: done(of_pidfd('pidfd_getfd', 0, 0)),
  move_pages=lambda: done(
    call('move_pages', victim(), 1, bytes(8), None, bytes(4), 0)
  ),
  migrate_pages=lambda: done(
    call('migrate_pages', victim(), 64, b'\1' + bytes(7), b'\1' + bytes(7))
  ),
  robust_list=lambda: done(
    call('get_robust_list', victim(), bytes(8), bytes(8))
  ),
  count=lambda: count(victim(), -1),
  count_all=lambda: count(-1, 0),
  share_a_core=lambda: done(
    libc.prctl(62, 2, victim(), 0, 0) and call('kcmp', 1, victim(), 9, 0, 0)
  ),
  change_group=lambda: done(os.setpgid(victim(), 0)),
  enter_namespace=lambda: done(of_pidfd('setns', 0x40000000)),
)


# The same by files of /proc.


def of_victim(name):
  return f'/proc/{victim()}/{name}'


each(
  'proc',
  environ=lambda: seen(read(of_victim('environ'))),
  environ_of_thread=lambda: seen(read(of_victim(f'task/{victim()}/environ'))),
  environ_of_trainer=lambda: bool(read(f'/proc/{GIVEN["trainer"]}/environ')),
  environ_of_any=lambda: any(
    readable(x / 'environ') for x in pathlib.Path('/proc').glob('[0-9]*')
  ),
  memory=lambda: done(read(of_victim('mem'))),
  maps=lambda: bool(read(of_victim('maps'))),
  smaps=lambda: bool(read(of_victim('smaps'))),
  auxiliary=lambda: bool(read(of_victim('auxv'))),
  disk_use=lambda: bool(read(of_victim('io'))),
  stack=lambda: bool(read(of_victim('stack'))),
  running_call=lambda: bool(read(of_victim('syscall'))),
  page_map=lambda: bool(read(of_victim('pagemap'))),
  descriptors=lambda: bool(os.listdir(of_victim('fd'))),
  descriptor=lambda: bool(os.open(of_victim('fd/0'), os.O_RDONLY)),
  folder=lambda: bool(os.listdir(of_victim('cwd'))),
  root=lambda: bool(os.listdir(of_victim('root'))),
  program=lambda: bool(os.readlink(of_victim('exe'))),
  map_files=lambda: bool(os.listdir(of_victim('map_files'))),
  namespace=lambda: bool(os.readlink(of_victim('ns/net'))),
  oom_score=lambda: wrote(of_victim('oom_score_adj'), '1000'),
  own_oom_score=lambda: wrote('/proc/self/oom_score_adj', '0'),
  name=lambda: wrote(of_victim('comm'), 'x'),
  references=lambda: wrote(of_victim('clear_refs'), '1'),
  timer_slack=lambda: wrote(of_victim('timerslack_ns'), '1'),
  core_filter=lambda: wrote(of_victim('coredump_filter'), '0'),
  autogroup=lambda: wrote(of_victim('autogroup'), '19'),
  label=lambda: wrote(of_victim('attr/current'), 'x'),
  user_map=lambda: wrote(of_victim('uid_map'), '0 0 1'),
  system=lambda: wrote('/proc/sys/kernel/hostname', 'x'),
  core_pattern=lambda: done(
    os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY)
  ),
  system_request=lambda: done(os.open('/proc/sysrq-trigger', os.O_WRONLY)),
  kernel_memory=lambda: bool(read('/proc/kcore')),
  control_group=lambda: any(
    writable(x) for x in pathlib.Path('/sys/fs/cgroup').glob('**/cgroup.procs')
  ),
  command_line=lambda: seen(read(of_victim('cmdline'))),
  status=lambda: bool(read(of_victim('status'))),
)


def readable(path):
  """Whether the environment is another's than this program's and its own."""
  try:
    return seen(read(path))
  except OSError:
    return False


def writable(path):
  try:
    os.close(os.open(path, os.O_WRONLY))
  except OSError:
    return False
  return True


# What root may.


def clone_apart(flags):
  """A child in namespaces of its own."""
  child = call('clone', flags | 17, 0, 0, 0, 0)
  if not child:
    os._exit(0)
  return done(os.waitpid(child, 0))


def clone3_apart():
  words = struct.pack('11Q', 0x10000000, 0, 0, 0, 17, *[0] * 6)
  child = call('clone3', words, len(words))
  if not child:
    os._exit(0)
  return done(os.waitpid(child, 0))


def by_handle():
  handle = ctypes.create_string_buffer(struct.pack('Ii', 128, 0), 136)
  number = ctypes.byref(ctypes.c_int())
  call('name_to_handle_at', -100, GIVEN['private'].encode(), handle, number, 0)
  place = os.open(os.path.dirname(GIVEN['private']), os.O_RDONLY)
  return done(call('open_by_handle_at', place, handle, os.O_RDONLY))


def ioctl_of(path, number, value):
  place = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
  return done(fcntl.ioctl(place, number, struct.pack('l', value)))


def now():
  return struct.pack('qq', int(time.time()), 0)


each(
  'root',
  read_private=lambda: seen(read(GIVEN['private'])),
  change_root=lambda: done(os.chroot('/tmp')),
  owner=lambda: done(os.chown(GIVEN['canary'], 4321, 4321)),
  flags=lambda: ioctl_of(GIVEN['canary'], 0x40086602, 0x10),
  append_only=lambda: ioctl_of(GIVEN['canary'], 0x40086602, 0x20),
  no_access_time=lambda: ioctl_of(GIVEN['canary'], 0x40086602, 0x80),
  freeze=lambda: ioctl_of('/', 0xC0045877, 0),
  device=lambda: done(
    call('mknodat', -100, b'device', 0o20666, os.makedev(1, 1))
  ),
  mount=lambda: done(call('mount', b'x', b'/mnt', b'tmpfs', 0, None)),
  remount=lambda: done(call('mount', None, b'/', None, 32 | 4096, None)),
  bind=lambda: done(call('mount', b'/tmp', b'/tmp', None, 4096, None)),
  unmount=lambda: done(call('umount2', b'/proc', 2)),
  new_mount=lambda: done(call('fsopen', b'tmpfs', 0)),
  copy_mount=lambda: done(call('open_tree', -100, b'/', 1)),
  mount_flags=lambda: done(
    call('mount_setattr', -100, b'/', 0, struct.pack('4Q', 0, 1, 0, 0), 32)
  ),
  users=lambda: done(call('unshare', 0x10000000)),
  mounts=lambda: done(call('unshare', 0x00020000)),
  networks=lambda: done(call('unshare', 0x40000000)),
  users_of_child=lambda: clone_apart(0x10000000),
  clone3=clone3_apart,
  open_by_handle=by_handle,
  kernel_program=lambda: done(call('bpf', 0, bytes(72), 72)),
  clock=lambda: done(call('clock_settime', 0, now())),
  host_name=lambda: done(socket.sethostname('x')),
  become=lambda: done(os.setuid(4321)),
  groups=lambda: done(os.setgroups([4321])),
  ports_of_machine=lambda: done(call('iopl', 3)),
  haste=lambda: done(os.setpriority(os.PRIO_PROCESS, 0, -5)),
  real_time=lambda: done(
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
  ),
  more_limit=lambda: done(
    resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20))
  ),
  disk=lambda: any(
    readable_at_all(x) for x in pathlib.Path('/dev').glob('[vsn]*d[a0-9]*')
  ),
  machine_memory=lambda: readable_at_all('/dev/mem'),
  kernel_log=lambda: done(os.open('/dev/kmsg', os.O_WRONLY)),
)


def readable_at_all(path):
  try:
    return bool(os.read(os.open(path, os.O_RDONLY | os.O_NONBLOCK), 1))
  except OSError:
    return False


# What several processes have in common.


def of_queue(flags=os.O_RDWR):
  return call('mq_open', GIVEN['queue'].encode(), flags, 0o666, None)


each(
  'common',
  memory=lambda: done(call('shmget', GIVEN['key'], 0, 0)),
  remove_memory=lambda: done(call('shmctl', GIVEN['memory'], 0, None)),
  attach_memory=lambda: done(call('shmat', GIVEN['memory'], None, 0)),
  semaphores=lambda: done(call('semget', GIVEN['key'], 0, 0)),
  remove_semaphores=lambda: done(call('semctl', GIVEN['semaphores'], 0, 0)),
  messages=lambda: done(call('msgget', GIVEN['key'], 0)),
  remove_messages=lambda: done(call('msgctl', GIVEN['messages'], 0, None)),
  take_message=lambda: done(
    call('msgrcv', GIVEN['messages'], bytes(64), 16, 0, 0o4000)
  ),
  queue=lambda: done(of_queue()),
  remove_queue=lambda: done(call('mq_unlink', GIVEN['queue'].encode())),
  shared_file=lambda: seen(read('/dev/shm/' + GIVEN['shared'])),
  change_shared_file=lambda: (
    wrote('/dev/shm/' + GIVEN['shared'], 'x') and not apart()
  ),
  key=lambda: done(
    call('keyctl', 10, -4, b'user', GIVEN['secret'].encode(), 0)
  ),
  key_names=lambda: seen(read('/proc/keys')),
  new_key=lambda: done(call('add_key', b'user', b'new', b'x', 1, -4)),
  new_session_key=lambda: done(call('add_key', b'user', b'new', b'x', 1, -3)),
  request_key=lambda: done(
    call('request_key', b'user', GIVEN['secret'].encode(), None, 0)
  ),
  new_keyring=lambda: done(call('keyctl', 1, b'mine')),
  requests=lambda: done(call('io_setup', 60000, bytes(8))),
  watches=lambda: done(call('inotify_init')),
  watches_with_flags=lambda: done(call('inotify_init1', 0)),
  marks=lambda: done(call('fanotify_init', 0x200, 0)),
  faults=lambda: done(call('userfaultfd', 1)),
  terminal=lambda: done(os.open('/dev/tty', os.O_RDWR)),
  other_terminal=lambda: done(
    os.open(GIVEN['terminal'], os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
  ),
  typing=lambda: done(
    fcntl.ioctl(os.open('/dev/tty', os.O_RDONLY), 0x5412, b'x')
  ),
)


def apart():
  """Whether this is a process of few."""
  return not os.path.exists(f'/proc/{victim()}')


@program
def common_left_memory():
  """Leaves objects of each kind; the host looks whether they are there."""
  call('shmget', GIVEN['free'], 4096, 0o1666)
  return False


@program
def common_left_semaphores():
  call('semget', GIVEN['free'], 1, 0o1666)
  return False


@program
def common_left_messages():
  call('msgget', GIVEN['free'], 0o1666)
  return False


@program
def common_left_queue():
  GIVEN['queue'] += '-left'
  of_queue(os.O_RDWR | os.O_CREAT)
  return False


@program
def common_left_file():
  wrote(f'/dev/shm/{GIVEN["shared"]}.left', 'x')
  return False


# Files outside.


def canary(also=''):
  return GIVEN['canary'] + also


def at_canary(flags):
  return os.open(canary(), flags)


def mapped():
  with open(canary(), 'r+b') as file:
    mmap.mmap(file.fileno(), 4)[:1] = b'x'


each(
  'file',
  write=lambda: wrote(canary(), 'x'),
  append=lambda: done(os.write(at_canary(os.O_APPEND | os.O_WRONLY), b'x')),
  truncate=lambda: done(os.truncate(canary(), 0)),
  cut_by_open=lambda: done(at_canary(os.O_RDONLY | os.O_TRUNC)),
  map=lambda: done(mapped()),
  through_proc=lambda: done(
    os.open(f'/proc/self/fd/{at_canary(os.O_RDONLY)}', os.O_WRONLY)
  ),
  through_path=lambda: done(
    os.open(f'/proc/self/fd/{at_canary(os.O_PATH)}', os.O_WRONLY)
  ),
  remove=lambda: done(os.remove(canary())),
  rename=lambda: done(os.rename(canary(), canary('2'))),
  take=lambda: done(os.rename(canary(), 'mine')),
  replace=lambda: wrote('new', 'x') and done(os.rename('new', canary())),
  link=lambda: done(os.link(canary(), canary('2'))),
  link_here=lambda: done(os.link(canary(), 'mine')),
  symlink=lambda: done(os.symlink('x', canary('2'))),
  through_symlink=lambda: os.symlink(canary(), 'way') or wrote('way', 'x'),
  folder=lambda: done(os.mkdir(canary('2'))),
  fifo=lambda: done(os.mkfifo(canary('2'))),
  new=lambda: wrote(canary('2'), 'x'),
  unnamed=lambda: done(
    os.open(os.path.dirname(canary()), os.O_TMPFILE | os.O_RDWR)
  ),
  pipe=lambda: done(os.open(GIVEN['pipe'], os.O_RDWR | os.O_NONBLOCK)),
  attribute=lambda: done(os.setxattr(canary(), 'user.x', b'x')),
  access_list=lambda: done(
    os.setxattr(canary(), 'system.posix_acl_access', struct.pack('I', 2))
  ),
  remove_attribute=lambda: done(os.removexattr(canary(), 'user.there')),
  lease=lambda: done(fcntl.fcntl(at_canary(os.O_RDONLY), 1024, 0)),
  notice=lambda: done(
    fcntl.fcntl(os.open(os.path.dirname(canary()), os.O_RDONLY), 1026, 1)
  ),
  inherited=lambda: seen(os.read(GIVEN['extra'], 100)),
  mode=lambda: done(os.chmod(canary(), 0o600)),
  mode_of_open=lambda: done(os.fchmod(at_canary(os.O_RDONLY), 0o600)),
  group=lambda: done(os.chown(canary(), -1, os.getgid())),
  times=lambda: done(os.utime(canary(), (1, 1))),
)


# The network.


def connect(family, kind, address, protocol=0):
  with socket.socket(family, kind, protocol) as handle:
    handle.settimeout(5)
    handle.connect(address)
    if kind == socket.SOCK_STREAM and family == socket.AF_INET:
      return bool(handle.recv(1))
  return True


INET, INET6, UNIX = socket.AF_INET, socket.AF_INET6, socket.AF_UNIX
STREAM, DATA = socket.SOCK_STREAM, socket.SOCK_DGRAM


def serve(bound):
  handle = socket.socket()
  if bound:
    handle.bind(('0.0.0.0', 0))
  else:
    call('listen', handle.fileno(), 1)
  return True


def fast_open():
  with socket.socket() as handle:
    handle.sendto(b'x', 0x20000000, ('127.0.0.1', GIVEN['other']))
  return True


def deferred():
  """Connects only once something is sent."""
  with socket.socket() as handle:
    handle.setsockopt(socket.IPPROTO_TCP, 30, 1)
    handle.connect(('127.0.0.1', GIVEN['other']))
    handle.send(b'x')
    return bool(handle.recv(1))


def by_pair():
  left, _ = socket.socketpair(UNIX, DATA)
  left.sendto(b'x', GIVEN['data'])
  return True


def made(family, kind, protocol=0):
  return done(socket.socket(family, kind, protocol))


each(
  'network',
  other_port=lambda: connect(INET, STREAM, ('127.0.0.1', GIVEN['other'])),
  other_port_6=lambda: connect(INET6, STREAM, ('::1', GIVEN['other'])),
  other_port_mapped=lambda: connect(
    INET6, STREAM, ('::ffff:127.0.0.1', GIVEN['other'])
  ),
  other_address=lambda: connect(
    INET, STREAM, (GIVEN['address'], GIVEN['port'])
  ),
  datagram=lambda: connect(INET, DATA, ('127.0.0.1', GIVEN['other'])),
  stream=lambda: connect(UNIX, STREAM, GIVEN['unix']),
  abstract=lambda: connect(UNIX, STREAM, '\0' + GIVEN['abstract']),
  sequence=lambda: connect(UNIX, socket.SOCK_SEQPACKET, GIVEN['unix']),
  from_a_pair=by_pair,
  raw=lambda: made(INET, socket.SOCK_RAW, 1),
  ping=lambda: made(INET, DATA, 1),
  packets=lambda: made(socket.AF_PACKET, socket.SOCK_RAW),
  kernel=lambda: made(socket.AF_NETLINK, socket.SOCK_RAW),
  machine=lambda: made(40, STREAM),
  several_ways=lambda: made(INET, STREAM, 262),
  associations=lambda: made(INET, STREAM, 132),
  ciphers=lambda: made(38, socket.SOCK_SEQPACKET),
  express=lambda: made(44, socket.SOCK_RAW),
  fast_open=fast_open,
  deferred=deferred,
  bind=lambda: serve(True),
  listen=lambda: serve(False),
  ring=lambda: done(call('io_uring_setup', 4, bytes(120))),
)


@program
def process_everybody():
  """A signal that others ignore; the host looks whether it came."""
  os.kill(-1, signal.SIGURG)
  return False


def tried(run):
  try:
    return bool(run())
  except (OSError, ValueError, OverflowError) as error:
    return str(error)


if __name__ == '__main__':
  GIVEN = globals().get('GIVEN') or json.loads(sys.argv[1])
  out = {x: tried(PROGRAMS[x]) for x in GIVEN.get('only') or PROGRAMS}
  print(json.dumps(out))
