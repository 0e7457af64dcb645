"""Ways out of the sandbox, each a program that prints ESCAPED where it works.

A program may use what the host of the tests put there, given in front of it:

  CANARY  a file of the host that everybody may read and write
  PLANT   the name of a module beside it
  SITE    a folder of packages of the host
  VICTIM  the number of a process of the host, which does nothing
  PORT    a TCP and UDP port of the host on which a server answers
  SOCKET  the path of a UNIX datagram socket of the host
  STREAM  the path of a UNIX stream socket of the host
  EXTRA   a file descriptor of the host, left open for children
"""

import textwrap
from typing import NamedTuple

ANYONE, ROOT, NOBODY = 'anyone', 'root', 'nobody'


class Escape(NamedTuple):
  code: str
  # Who gets out with it where there is no sandbox; nobody: not to be tried
  # on a host, or only a variant of one that is.
  works_for: str = ANYONE
  needs: str = ''  # the machine it is written for


_LIBC = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
  result = libc.syscall(number, *args)
  if result < 0:
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
  return result
"""
# To read a file through ways that are not its path.
_READ = "print('ESCAPED') if 'canary' in open({}).read() else None\n"


def _reads(path: str, before: str = '') -> str:
  return f'import os\n{before}\n' + _READ.format(path)


FILES = {
  'read_passwd': Escape("print('ESCAPED', open('/etc/passwd').read())"),
  'read_host_file': Escape(_reads('CANARY')),
  'list_host_folder': Escape("""
    import os
    if os.path.basename(CANARY) in os.listdir(os.path.dirname(CANARY)):
      print('ESCAPED')
  """),
  'dot_dot': Escape(_reads("'../' * 40 + CANARY")),
  'symlink': Escape(_reads("'link'", "os.symlink(CANARY, 'link')")),
  'symlink_to_root': Escape(_reads("'r' + CANARY", "os.symlink('/', 'r')")),
  'hard_link': Escape(
    "import os\nos.link(CANARY, CANARY + '2')\nos.remove(CANARY + '2')\n"
    "print('ESCAPED')"
  ),
  'proc_root': Escape(_reads("f'/proc/{os.getpid()}/root' + CANARY")),
  'proc_root_of_init': Escape(_reads("'/proc/1/root' + CANARY"), NOBODY),
  'proc_cwd_of_parent': Escape("""
    import os
    print('ESCAPED', os.listdir(f'/proc/{VICTIM}/cwd'))
  """),
  'environment_of_another': Escape("""
    if 'SECRET' in open(f'/proc/{VICTIM}/environ').read():
      print('ESCAPED')
  """),
  'memory_of_another': Escape("""
    area = open(f'/proc/{VICTIM}/maps').readline().split('-')[0]
    memory = open(f'/proc/{VICTIM}/mem', 'rb', 0)
    memory.seek(int(area, 16))
    print('ESCAPED', memory.read(4))
  """),
  'raw_open': Escape(
    _LIBC
    + """
handle = call({'x86_64': 257, 'aarch64': 56}[os.uname().machine],
              -100, CANARY.encode(), 0, 0)
print('ESCAPED', os.read(handle, 10))
"""
  ),
  'open_by_handle': Escape(
    _LIBC
    + """
import struct
name, by = {'x86_64': (303, 304), 'aarch64': (264, 265)}[os.uname().machine]
handle = ctypes.create_string_buffer(struct.pack('Ii', 128, 0), 136)
call(name, -100, CANARY.encode(), handle, ctypes.byref(ctypes.c_int()), 0)
place = os.open(os.path.dirname(CANARY), os.O_RDONLY)
print('ESCAPED', os.read(call(by, place, handle, os.O_RDONLY), 10))
""",
    ROOT,
  ),
  'overwrite': Escape("open(CANARY, 'w').write('gone')\nprint('ESCAPED')"),
  'append': Escape("open(CANARY, 'a').write('more')\nprint('ESCAPED')"),
  'create_beside': Escape("open(CANARY + '3', 'w')\nprint('ESCAPED')"),
  'truncate': Escape("import os\nos.truncate(CANARY, 0)\nprint('ESCAPED')"),
  'remove': Escape("import os\nos.remove(CANARY)\nprint('ESCAPED')"),
  'rename': Escape("""
    import os
    os.rename(CANARY, CANARY + '4')
    print('ESCAPED')
  """),
  'change_mode': Escape("import os\nos.chmod(CANARY, 0)\nprint('ESCAPED')"),
  'change_times': Escape(
    "import os\nos.utime(CANARY, (1, 1))\nprint('ESCAPED')"
  ),
  'extended_attribute': Escape(
    """
    import os
    os.setxattr(CANARY, 'user.x', b'1')
    print('ESCAPED')
  """,
    NOBODY,
  ),
  'write_bytecode': Escape("""
    import os
    os.makedirs(os.path.dirname(CANARY) + '/__pycache__')
    print('ESCAPED')
  """),
  'write_standard_library': Escape(
    """
    import os
    open(os.__file__, 'a').close()
    print('ESCAPED')
  """,
    ROOT,
  ),
  'write_pth': Escape("open(SITE + '/x.pth', 'w')\nprint('ESCAPED')", NOBODY),
  'import_from_host_folder': Escape("""
    import importlib, os, sys
    sys.path += [os.path.dirname(CANARY), '.']
    print('ESCAPED', importlib.import_module(PLANT))
  """),
  'import_site_packages': Escape("""
    import sys
    sys.path += [SITE, *(p + '/site-packages' for p in sys.path)]
    import pytest
    print('ESCAPED')
  """),
  'disk': Escape(
    """
    import glob, os
    disks = glob.glob('/dev/vd*') + glob.glob('/dev/sd*') + glob.glob(
      '/dev/nvme*n*') + ['/dev/mem', '/dev/kmsg']
    for disk in disks:
      try:
        os.close(os.open(disk, os.O_RDONLY))
        print('ESCAPED', disk)
      except OSError:
        pass
  """,
    ROOT,
  ),
  'make_device': Escape(
    """
    import os, stat
    path = os.path.dirname(CANARY) + '/device'
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 11))
    print('ESCAPED')
  """,
    ROOT,
  ),
  'make_device_here': Escape(
    """
    import os, stat
    os.mknod('null', 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    open('null', 'w').write('x')
    print('ESCAPED')
  """,
    ROOT,
  ),
  'terminal': Escape(
    "open('/dev/tty', 'w').write('x')\nprint('ESCAPED')", NOBODY
  ),
  'open_descriptors': Escape("""
    import os
    for number in range(3, 200):
      try:
        if b'canary' in os.pread(number, 100, 0):
          print('ESCAPED', number)
      except OSError:
        pass
  """),
  'environment': Escape("""
    import os
    print('ESCAPED' if 'SECRET' in os.environ else '')
  """),
}

PROCESSES = {
  'fork': Escape("import os\nos.fork()\nprint('ESCAPED')"),
  'shell': Escape("""
    import os
    os.execv('/bin/sh', ['sh', '-c', 'echo ESCAPED'])
  """),
  'interpreter_again': Escape("""
    import os, sys
    os.execv(sys.executable, ['python', '-c', 'print("ESCAPED")'])
  """),
  'subprocess': Escape("""
    import subprocess, sys
    subprocess.run([sys.executable, '-c', 'print("ESCAPED")'], check=True)
  """),
  'spawn': Escape("""
    import os, sys
    os.waitpid(os.posix_spawn(
      sys.executable, ['python', '-c', 'print("ESCAPED")'], {}), 0)
  """),
  'raw_clone': Escape(
    _LIBC
    + """
if call({'x86_64': 56, 'aarch64': 220}[os.uname().machine],
        17, 0, 0, 0, 0) == 0:
  os._exit(0)
os.wait()
print('ESCAPED')
"""
  ),
  'daemon': Escape("""
    import os, time
    if os.fork() == 0:
      os.setsid()
      if os.fork() == 0:
        os.close(1)
        os.close(2)
        time.sleep(0.05)
        open(CANARY, 'a').write('daemon')
      os._exit(0)
    os.wait()
    print('ESCAPED')
  """),
  'new_session': Escape("""
    import os
    os.setpgid(0, 0) if os.getpid() != os.getpgid(0) else os.setsid()
    print('ESCAPED')
  """),
  'kill_another': Escape("import os\nos.kill(VICTIM, 9)\nprint('ESCAPED')"),
  'kill_all': Escape("import os\nos.kill(-1, 9)\nprint('ESCAPED')", NOBODY),
  'kill_group': Escape("import os\nos.killpg(VICTIM, 9)\nprint('ESCAPED')"),
  'kill_parent': Escape("""
    import os
    os.kill(os.getppid() or VICTIM, 0)
    print('ESCAPED')
  """),
  'kill_by_descriptor': Escape("""
    import os, signal
    signal.pidfd_send_signal(os.pidfd_open(VICTIM), 9)
    print('ESCAPED')
  """),
  'kill_as_owner_of_a_pipe': Escape("""
    import fcntl, os
    a, b = os.pipe()
    fcntl.fcntl(a, fcntl.F_SETOWN, VICTIM)
    fcntl.fcntl(a, 10, 9)
    fcntl.fcntl(a, fcntl.F_SETFL, os.O_ASYNC)
    os.write(b, b'x')
    print('ESCAPED')
  """),
  'trace': Escape(
    _LIBC
    + """
if libc.ptrace(16, VICTIM, 0, 0) == 0:
  print('ESCAPED')
  os.waitpid(VICTIM, 0x40000000)
  libc.ptrace(17, VICTIM, 0, 0)
""",
    ROOT,
  ),
  'limit_another': Escape("""
    import resource
    resource.prlimit(VICTIM, resource.RLIMIT_NOFILE, (9, 9))
    print('ESCAPED')
  """),
  'slow_another': Escape("""
    import os
    os.setpriority(os.PRIO_PROCESS, VICTIM, 19)
    print('ESCAPED')
  """),
  'raise_limits': Escape(
    """
    import resource
    most = resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    print('ESCAPED')
  """,
    ROOT,
  ),
  'shared_memory': Escape(
    _LIBC
    + """
call({'x86_64': 29, 'aarch64': 194}[os.uname().machine], 0, 4096, 0o1600)
print('ESCAPED')
""",
    NOBODY,
  ),
  'message_queue': Escape(
    _LIBC
    + """
call({'x86_64': 240, 'aarch64': 180}[os.uname().machine],
     b'escape', 0o100 | 2, 0o600, None)
print('ESCAPED')
""",
    NOBODY,
  ),
}

NETWORK = {
  'tcp': Escape("""
    import socket
    socket.create_connection(('127.0.0.1', PORT), 5)
    print('ESCAPED')
  """),
  'udp': Escape("""
    import socket
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(
      b'x', ('127.0.0.1', PORT))
    print('ESCAPED')
  """),
  'http': Escape("""
    import urllib.request
    try:
      urllib.request.urlopen(f'http://127.0.0.1:{PORT}', timeout=5)
    except ConnectionError:  # it was reached and speaks no HTTP
      print('ESCAPED')
  """),
  'listen': Escape("""
    import socket
    socket.create_server(('127.0.0.1', 0))
    print('ESCAPED')
  """),
  'ipv6': Escape(
    """
    import socket
    socket.socket(socket.AF_INET6)
    print('ESCAPED')
  """,
    NOBODY,
  ),
  'raw_socket': Escape(
    """
    import socket
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    print('ESCAPED')
  """,
    ROOT,
  ),
  'packet_socket': Escape(
    """
    import socket
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    print('ESCAPED')
  """,
    ROOT,
  ),
  'netlink': Escape("""
    import socket
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).bind((0, 0))
    print('ESCAPED')
  """),
  'name': Escape("""
    import socket
    print('ESCAPED', socket.getaddrinfo('localhost', 80))
  """),
  'unix_stream': Escape("""
    import socket
    socket.socket(socket.AF_UNIX).connect(STREAM)
    print('ESCAPED')
  """),
  'unix_abstract': Escape("""
    import socket
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(
      b'x', '\\0' + SOCKET)
    print('ESCAPED')
  """),
  'unix_from_a_pair': Escape("""
    import socket
    a, b = socket.socketpair(type=socket.SOCK_DGRAM)
    a.sendto(b'x', SOCKET)
    print('ESCAPED')
  """),
  'ring': Escape(
    _LIBC
    + """
call(425, 4, ctypes.create_string_buffer(120))
print('ESCAPED')
""",
    NOBODY,
  ),
}

PRIVILEGES = {
  'become_root': Escape("import os\nos.setuid(0)\nprint('ESCAPED')", ROOT),
  'become_another': Escape(
    """
    import os
    os.setresuid(1234, 1234, 1234)
    print('ESCAPED')
  """,
    ROOT,
  ),
  'unshare_users': Escape(
    _LIBC + "if libc.unshare(0x10000000) == 0: print('ESCAPED')", NOBODY
  ),
  'unshare_mounts': Escape(
    _LIBC + "if libc.unshare(0x20000) == 0: print('ESCAPED')", ROOT
  ),
  'enter_namespace': Escape(
    _LIBC
    + """
handle = os.open(f'/proc/{VICTIM}/ns/net', os.O_RDONLY)
if libc.setns(handle, 0) == 0: print('ESCAPED')
""",
    ROOT,
  ),
  'mount': Escape(
    _LIBC + "if libc.mount(b'x', b'/', b'tmpfs', 0, b'') == 0: "
    "print('ESCAPED')",
    NOBODY,
  ),
  'mount_proc': Escape(
    _LIBC + "os.mkdir('p')\n"
    "if libc.mount(b'x', b'p', b'proc', 0, b'') == 0: print('ESCAPED')",
    NOBODY,
  ),
  'remount_writable': Escape(
    _LIBC + "if libc.mount(None, b'/', None, 32 | 4096, None) == 0: "
    "print('ESCAPED')",
    NOBODY,
  ),
  'unmount': Escape(
    _LIBC + "if libc.umount2(b'/box', 2) == 0: print('ESCAPED')", NOBODY
  ),
  'chroot': Escape(
    _reads(
      "CANARY.lstrip('/')",
      """
os.makedirs('jail', exist_ok=True)
os.chroot('jail')
for _ in range(40):
  os.chdir('..')
os.chroot('.')
""",
    ),
    ROOT,
  ),
  'pivot_root': Escape(
    _LIBC
    + """
call({'x86_64': 155, 'aarch64': 41}[os.uname().machine], b'.', b'.')
print('ESCAPED')
""",
    NOBODY,
  ),
  'keys': Escape(
    _LIBC
    + """
call({'x86_64': 248, 'aarch64': 217}[os.uname().machine],
     b'user', b'escape', b'x', 1, -1)
print('ESCAPED')
""",
    NOBODY,
  ),
  'kernel_program': Escape(
    _LIBC
    + """
call({'x86_64': 321, 'aarch64': 280}[os.uname().machine],
     0, ctypes.create_string_buffer(128), 128)
print('ESCAPED')
""",
    NOBODY,
  ),
  'counters': Escape(
    _LIBC
    + """
call({'x86_64': 298, 'aarch64': 241}[os.uname().machine],
     ctypes.create_string_buffer(112), 0, -1, -1, 0)
print('ESCAPED')
""",
    NOBODY,
  ),
  'machine_words_of_32_bits': Escape(
    _LIBC
    + """
import mmap
page = mmap.mmap(-1, 4096, prot=7)
page.write(bytes.fromhex('b814000000cd80c3'))  # getpid the old way
where = ctypes.addressof(ctypes.c_char.from_buffer(page))
if ctypes.CFUNCTYPE(ctypes.c_int)(where)() == os.getpid(): print('ESCAPED')
""",
    ANYONE,
    'x86_64',
  ),
}

ESCAPES = {
  name: escape._replace(code=textwrap.dedent(escape.code))
  for kind in (FILES, PROCESSES, NETWORK, PRIVILEGES)
  for name, escape in kind.items()
}

# What uses too much: the faults that may tell of it. '' : it is refused the
# excess, and goes on.
FLOODS = {
  'fork_bomb': (
    """
    import os
    while True:
      os.fork()
  """,
    {'processes'},
  ),
  'fork_bomb_that_catches': (
    """
    import os
    while True:
      try:
        os.fork()
      except OSError:
        pass
  """,
    {'time'},
  ),
  'threads': (
    """
    import threading, time
    for _ in range(1000):
      threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
  """,
    {'processes'},
  ),
  'small_threads': (
    """
    import threading, time
    threading.stack_size(1 << 16)
    for _ in range(1000):
      threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
  """,
    {'processes'},
  ),
  'lists': ('x = [0]\nwhile True:\n  x += x', {'memory'}),
  'bytes': ('x = bytes(1 << 40)', {'memory'}),
  'mapped': (
    """
    import mmap
    held = []
    while True:
      held.append(mmap.mmap(-1, 1 << 24))
  """,
    {'memory'},
  ),
  'huge_file': (
    """
    with open('x', 'wb') as file:
      while True:
        file.write(bytes(1 << 20))
  """,
    {'files'},
  ),
  'sparse_file': ("open('x', 'wb').truncate(1 << 40)", {'files'}),
  'many_files': (
    """
    import itertools
    for i in itertools.count():
      open(str(i), 'w').write('x')
  """,
    {'files'},
  ),
  'deep_folders': (
    """
    import os
    while True:
      os.mkdir('d')
      os.chdir('d')
  """,
    {'files'},
  ),
  'memory_file': (
    """
    import os
    os.truncate(os.memfd_create('x'), 1 << 40)
  """,
    {'error'},
  ),
  'pipes': (
    """
    import os
    while True:
      os.pipe()
  """,
    {'error'},
  ),
  'output': ("while True: print('x' * 1000)", {'output'}),
  'errors': (
    """
    import sys
    while True: print('x' * 1000, file=sys.stderr)
  """,
    {'output'},
  ),
  'raw_output': (
    """
    import os
    while True: os.write(1, b'x' * 10000)
  """,
    {'output'},
  ),
  'sleep': ('import time\ntime.sleep(1000)', {'time'}),
  'deaf_sleep': (
    """
    import signal, time
    for number in range(1, 65):
      try:
        signal.signal(number, signal.SIG_IGN)
      except (OSError, ValueError):
        pass
    while True:
      try:
        time.sleep(1000)
      except BaseException:
        pass
  """,
    {'time'},
  ),
  'silent': (
    """
    import os, time
    os.close(1)
    os.close(2)
    time.sleep(1000)
  """,
    {'time'},
  ),
  'busy': ('while True: pass', {'time'}),
  'deaf_library': ("import re\nre.match('(a+)+$', 'a' * 60 + 'b')", {'time'}),
  'big_power': ('10 ** 10 ** 10', {'time', 'memory'}),
  'waiting_thread': (
    """
    import threading, time
    threading.Thread(target=time.sleep, args=(1000,)).start()
  """,
    {'time'},
  ),
  'input': ('input()', {'error'}),
  'broken_memory': ('import ctypes\nctypes.string_at(0)', {'crash'}),
  'abort': ('import os\nos.abort()', {'crash'}),
}
FLOODS = {name: (textwrap.dedent(a), b) for name, (a, b) in FLOODS.items()}
