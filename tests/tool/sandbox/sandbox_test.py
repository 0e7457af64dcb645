"""Code in the sandbox: what it can do, and that no way leads out."""

import concurrent.futures
import contextlib
import errno
import fcntl
import os
import pathlib
import platform
import subprocess
import sys
import threading
import time

import pytest

from agentrl.tool.sandbox import process as sandbox_process
from agentrl.tool.sandbox import sandbox
from agentrl.tool.sandbox.sandbox import Sandbox, SandboxLimits
from tests import errors
from tests.tool.sandbox import escapes

# Long enough for a machine that does much else, since what does not come to
# be tried shows nothing; and too short for what would never end.
LONG = SandboxLimits(seconds=120, memory=256 << 20)
BRIEF = LONG._replace(seconds=0.4)
WITHOUT_FOLDER = tuple(x for x in sandbox.LAYERS if x != 'namespaces')


def made(**settings) -> Sandbox:
  """A sandbox, or the reason why this system has none.

  Where every layer stands, a refusal is a layer that is broken.
  """
  try:
    return Sandbox(**settings)
  except RuntimeError as error:
    layers = settings.get('layers', sandbox.LAYERS)
    standing = sandbox._standing(settings.get('python', sys.executable), layers)
    if standing == sandbox.LAYERS:
      raise
    pytest.skip(f'refused as it must be: {error}')


def everybodys_python() -> str:
  """An interpreter in root's home is not there for nobody."""
  hidden = os.path.realpath(sys.executable).startswith('/root/')
  return '/usr/bin/python3' if hidden else sys.executable


def made_without_folder(**settings) -> Sandbox:
  """Only Landlock and seccomp, as in a container that allows no namespaces."""
  python = everybodys_python()
  if not os.path.exists(python):
    pytest.skip('no interpreter here that every user can read')
  return made(layers=WITHOUT_FOLDER, python=python, **settings)


@pytest.fixture
def left(monkeypatch):
  """Tells which processes are left of all that sandboxes have started."""
  sessions = []

  class Noted(subprocess.Popen):
    def __init__(self, *args, **named):
      super().__init__(*args, **named)
      if sandbox_process._PROGRAM in args[0]:
        sessions.append(self.pid)

  def still():
    assert sessions, 'nothing was started, so nothing is shown'
    return [pid for pid, at in everybody().items() if at in sessions]

  monkeypatch.setattr(sandbox_process.subprocess, 'Popen', Noted)
  return still


def everybody() -> dict[int, int]:
  """Process -> session, zombies too."""
  out = {}
  for place in pathlib.Path('/proc').glob('[0-9]*/stat'):
    try:
      fields = place.read_text().rpartition(')')[2].split()
    except OSError:  # it ended meanwhile
      continue
    out[int(place.parent.name)] = int(fields[3])
  return out


def got_out(text: str) -> bool:
  """A traceback that quotes the code does not count."""
  return any(line.startswith('ESCAPED') for line in text.splitlines())


def attack(box: Sandbox, host, left, code: str) -> sandbox.Outcome:
  """Runs code and asserts that it got nowhere and left nothing."""
  outcome = box.run(host.given(code))
  assert not got_out(outcome.text), outcome
  assert host.state() == host.before, outcome
  assert host.victim.poll() is None, 'another process was killed'
  assert not left()
  return outcome


def tried_by(escape: escapes.Escape) -> str:
  """'' or why the escape cannot be tried on this machine."""
  if escape.needs not in ('', platform.machine()):
    return f'it is written for {escape.needs}'
  return ''


by_escape = pytest.mark.parametrize('name', escapes.ESCAPES)
# The ones that anybody could use are tried in every run of the tests.
by_escape_in_time = pytest.mark.parametrize(
  'name',
  [
    pytest.param(
      name, marks=[] if x.works_for == escapes.ANYONE else pytest.mark.nightly
    )
    for name, x in escapes.ESCAPES.items()
  ],
)
by_flood = pytest.mark.parametrize('name', escapes.FLOODS)


def test_a_filter_stands_where_the_kernel_has_filters():
  """A sandbox that nothing starts in would skip every test below."""
  known = pathlib.Path('/proc/sys/kernel/seccomp/actions_avail').exists()
  if not known or platform.machine() not in ('x86_64', 'aarch64'):
    pytest.skip('the kernel has no filters of system calls that are known here')
  assert 'seccomp' in sandbox._standing(sys.executable, ('seccomp',))


@by_escape_in_time
def test_no_escape_works(name, host, left):
  if reason := tried_by(escapes.ESCAPES[name]):
    pytest.skip(reason)
  outcome = attack(made(limits=LONG), host, left, escapes.ESCAPES[name].code)
  assert outcome.fault != 'time'


@pytest.mark.nightly
@by_escape
def test_no_escape_works_without_namespaces(name, host, left):
  if reason := tried_by(escapes.ESCAPES[name]):
    pytest.skip(reason)
  box = made_without_folder(limits=LONG)
  outcome = attack(box, host, left, escapes.ESCAPES[name].code)
  assert outcome.fault != 'time'


@pytest.mark.nightly
@by_escape
def test_it_is_an_escape_where_there_is_no_sandbox(name, host):
  """Otherwise the tests above would show nothing."""
  escape = escapes.ESCAPES[name]
  if escape.works_for == escapes.NOBODY:
    pytest.skip('not to be tried on a host')
  if escape.works_for == escapes.ROOT and os.getuid():
    pytest.skip('only root gets out so')
  if reason := tried_by(escape):
    pytest.skip(reason)
  done = subprocess.run(
    [sys.executable, '-c', host.given(escape.code)],
    cwd=host.folder,
    close_fds=False,
    stdin=subprocess.DEVNULL,
    capture_output=True,
    text=True,
    check=False,
  )
  harmed = host.state() != host.before or host.victim.poll() is not None
  assert got_out(done.stdout) or harmed, done.stderr


def test_there_are_many_escapes():
  assert len(escapes.ESCAPES) >= 25
  real = [x for x in escapes.ESCAPES.values() if x.works_for != escapes.NOBODY]
  assert len(real) >= 50


@by_flood
def test_excess_is_stopped_counted_and_leaves_nothing(name, host, left):
  code, kinds = escapes.FLOODS[name]
  box = made(limits=BRIEF if 'time' in kinds else LONG)
  assert attack(box, host, left, code).fault in kinds


@pytest.mark.nightly
@by_flood
def test_excess_is_stopped_without_namespaces(name, host, left):
  code, kinds = escapes.FLOODS[name]
  limits = BRIEF if 'time' in kinds else LONG
  outcome = attack(made_without_folder(limits=limits), host, left, code)
  # Where there is no folder, writing is refused before it is too much.
  assert outcome.fault in kinds, outcome


@pytest.fixture(scope='module')
def box():
  return made(limits=LONG)


@pytest.mark.parametrize(
  ('code', 'text', 'fault'),
  [
    ('print(6 * 7)', '42\n', ''),
    ('', '', ''),
    ('raise SystemExit', '', ''),
    ('import sys\nsys.exit("no")', 'no\n', 'error'),
    ('import sys\nsys.exit(3)', '', 'error'),
    ('import os\nos._exit(9)', '', 'error'),
    ('import os\nos._exit(85)', '', 'error'),  # it is not for code to refuse
    ('import os\nos.write(3, b"x")', 0, 'error'),
    ('import sys\nprint("a", file=sys.stderr)', 'a\n', ''),
    ('print(list({"a", "b", "c", "d"}) == list({"d", "b", "c", "a"}))', 0, ''),
    ('import __main__\nx = 1\nprint(__main__.x, __name__)', '1 __main__\n', ''),
    ('open("a", "w").write("b")\nprint(open("a").read())', 'b\n', ''),
    ('import tempfile\nprint(tempfile.gettempdir())', '/box\n', ''),
    ('import os\nprint(os.listdir("."), os.getcwd())', '[] /box\n', ''),
    ('import os\nprint(os.uname().nodename)', 'box\n', ''),
    ('print("\\udc80 é")', '\\udc80 é\n', ''),
    ('print(1', 0, 'error'),
    ('x = "\x00"', 0, 'error'),
    ('open("gone")', 0, 'error'),
    ('open("/srv/gone")', 0, 'files'),
    ('import os\nos.mkdir("/x")', 0, 'files'),
    ('import socket\nsocket.socket()', 0, 'network'),
    ('import urllib.request as r\nr.urlopen("http://a.b")', 0, 'network'),
  ],
)
def test_code_runs_and_its_end_is_told(box, code, text, fault):
  outcome = box.run(code)
  assert outcome.fault == fault, outcome
  assert text in (0, outcome.text)


def test_a_traceback_shows_the_line_and_nothing_of_ours(box):
  text = box.run('def f():\n  return 1 / 0\nf()').text
  assert 'line 2, in f\n    return 1 / 0\n' in text
  assert text.endswith('ZeroDivisionError: division by zero\n')
  assert 'program.py' not in text
  hidden = box.run('import io, sys\nsys.stdout = io.StringIO()\n1 / 0')
  assert hidden.text.endswith('ZeroDivisionError: division by zero\n')


def test_what_python_needs_works(box):
  """Threads, an event loop, a database, compression, the device of nothing."""
  outcome = box.run(
    'import asyncio, os, shutil, sqlite3, ssl, threading, zlib, zoneinfo\n'
    'async def f():\n  await asyncio.sleep(0)\n  return 1\n'
    'x = [asyncio.run(f())]\n'
    't = threading.Thread(target=x.append, args=(2,))\nt.start()\nt.join()\n'
    'x += sqlite3.connect("d").execute("select 3").fetchone()\n'
    'open(os.devnull, "w").write("x")\nshutil.copy("d", "e")\nprint(x)'
  )
  assert outcome == ('[1, 2, 3]\n', '')


def test_a_database_locks_and_unlocks_its_file(box):
  """Two connections in turn, and not both at once; a lock of the library."""
  outcome = box.run(
    'import fcntl, sqlite3\n'
    'a, b = (sqlite3.connect("d", isolation_level=None, timeout=0)'
    ' for _ in "ab")\n'
    'a.execute("create table t (x)")\n'
    'for c in (a, b, a):\n  c.execute("insert into t values (1)")\n'
    'print(b.execute("select count(*) from t").fetchone())\n'
    'fcntl.lockf(open("e", "w"), fcntl.LOCK_EX)\n'
    'a.execute("begin immediate")\nb.execute("begin immediate")'
  )
  assert outcome.text.startswith('(3,)\n')
  assert outcome.text.endswith('OperationalError: database is locked\n')


def test_runs_know_nothing_of_each_other_and_go_on_at_once(box):
  code = 'import os, time\nprint({}, os.listdir("."))\nopen("a", "w")'
  with concurrent.futures.ThreadPoolExecutor(6) as pool:
    texts = [x.text for x in pool.map(box.run, map(code.format, range(12)))]
  assert texts == [f'{i} []\n' for i in range(12)]


def test_a_print_at_the_limit_is_whole():
  limited = made(limits=LONG._replace(output=11))
  assert limited.run('print("x" * 10)') == ('x' * 10 + '\n', '')
  assert limited.run('print("x" * 11)') == ('x' * 11, 'output')


def test_the_set_of_a_run_has_one_order(box):
  code = 'print({chr(97 + i) * 3 for i in range(26)})'
  assert box.run(code) == box.run(code)


def test_packages_can_be_imported_and_not_changed(tmp_path):
  (tmp_path / 'mine.py').write_text('x = 5')
  tmp_path.chmod(0o777)
  with_mine = made(limits=LONG, packages=[str(tmp_path)])
  assert with_mine.run('import mine\nprint(mine.x)') == ('5\n', '')
  changed = with_mine.run(f'open({str(tmp_path / "x")!r}, "w")')
  assert changed.fault == 'files'
  assert os.listdir(tmp_path) == ['mine.py']


def test_nothing_runs_when_a_layer_cannot_be_put_up(tmp_path):
  gone = tmp_path / 'gone'
  gone.mkdir()
  late = made(limits=LONG, packages=[str(gone)])
  gone.rmdir()
  if 'namespaces' in late.layers:
    with pytest.raises(RuntimeError):
      late.run('print(1)')


WITH_AND_WITHOUT = pytest.mark.parametrize(
  'make', [made, made_without_folder], ids=['namespaces', 'none']
)


@contextlib.contextmanager
def meanwhile(monkeypatch, box: Sandbox, code: str, folder: pathlib.Path):
  """While this lasts a run stands where its code calls `pause`; -> outcomes.

  It says so by a line, which nobody but the one who reads its output gets, and
  goes on once there is a file in the folder.
  """
  begun, others = threading.Event(), sandbox_process._read

  def read(pipe, end, most):
    line = b''
    while not line.endswith(b'\n') and (byte := os.read(pipe.fileno(), 1)):
      line += byte
    begun.set()
    text, fault = others(pipe, end, most)
    return line + text, fault

  head = (
    'import os, time\ndef pause(*said):\n  print(*said, flush=True)\n'
    f'  while not os.path.exists({str(folder / "go")!r}): time.sleep(0.01)\n'
  )
  outcomes = []
  thread = threading.Thread(
    target=lambda: outcomes.append(box.run(head + code))
  )
  monkeypatch.setattr(sandbox_process, '_read', read)
  thread.start()
  try:
    assert begun.wait(LONG.seconds)
    monkeypatch.setattr(sandbox_process, '_read', others)
    yield outcomes
  finally:
    (folder / 'go').touch()
    thread.join()


@pytest.fixture
def module(tmp_path, host):
  """A file of a package that all may read; `host` opens the way to it."""
  del host
  path = tmp_path / 'package' / 'module.py'
  path.parent.mkdir(mode=0o755)
  path.write_text('x = 1')
  path.chmod(0o644)
  return path


# Takes every lock that a file may have, and says what it got.
LOCKS = """
import fcntl, os, struct
def tried(call, *args):
  try:
    out = call(*args)
    return out if isinstance(out, (int, bytes)) else 'yes'
  except OSError as error:
    return error.errno
held = open(PATH, 'rb')
read = struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, 0, 0, 0)
write = struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0)
got = [
  tried(fcntl.flock, held, fcntl.LOCK_EX | fcntl.LOCK_NB),
  tried(fcntl.flock, held, fcntl.LOCK_SH | fcntl.LOCK_NB),
  tried(fcntl.lockf, held, fcntl.LOCK_SH | fcntl.LOCK_NB),
  *(tried(fcntl.fcntl, held, 37, x) for x in (read, write)),
  tried(fcntl.fcntl, held, fcntl.F_SETLEASE, fcntl.F_RDLCK),
  tried(fcntl.fcntl, os.open(os.path.dirname(PATH), os.O_RDONLY),
        fcntl.F_NOTIFY, fcntl.DN_ACCESS | fcntl.DN_MULTISHOT),
  tried(fcntl.fcntl, held, fcntl.F_GETLK, write),
]
"""


@WITH_AND_WITHOUT
def test_locks_tell_nothing_to_other_runs_and_the_host(
  make, module, monkeypatch
):
  box = make(limits=LONG, packages=[str(module.parent)])
  code = f'PATH = {str(module)!r}\n' + LOCKS
  alone = box.run(code + 'print(got)')
  assert not alone.fault, alone
  with meanwhile(
    monkeypatch, box, code + 'pause(*got)', module.parent
  ) as first:
    second = box.run(code + 'print(got)')
    with open(module, 'rb+') as mine:
      fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
      fcntl.lockf(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
      if os.geteuid() == os.stat(module).st_uid:
        assert fcntl.fcntl(mine, fcntl.F_GETLEASE) == fcntl.F_UNLCK
  assert second == alone
  assert not first[0].fault, first


# Waits on a word in memory that is a file's; anybody with the file can wake it.
WORD = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype, libc.syscall.restype = ctypes.c_void_p, ctypes.c_long
at = libc.mmap(None, ctypes.c_size_t(4096), 1, 2, os.open(PATH, os.O_RDONLY),
               ctypes.c_long(0))
futex = ctypes.c_long({'x86_64': 202, 'aarch64': 98}[os.uname().machine])
def call(op, value):
  out = libc.syscall(futex, ctypes.c_void_p(at), op, ctypes.c_uint(value),
                     (ctypes.c_long * 2)(10, 0), None, 0)
  return out if out >= 0 else -ctypes.get_errno()
word = ctypes.c_uint.from_address(at).value
"""


@WITH_AND_WITHOUT
def test_no_run_wakes_another(make, monkeypatch, module):
  box = make(limits=LONG, packages=[str(module.parent)])
  code = f'PATH = {str(module)!r}\n' + WORD
  waits = (
    code
    + 'import threading\nout = []\n'
    + (
      'def wait(): out.append(call(0, word))\n'
      't = threading.Thread(target=wait)\nt.start()\ntime.sleep(0.2)\n'
      'pause()\nt.join()\nprint(out)'
    )
  )
  with meanwhile(monkeypatch, box, waits, module.parent) as first:
    woken = box.run(code + 'print(call(1, 9))')
  assert woken == ('0\n', '')
  assert first == [(f'\n[-{errno.EAGAIN}]\n', '')]


@WITH_AND_WITHOUT
def test_no_run_takes_the_threads_of_another(make, monkeypatch, module):
  folder = module.parent
  wide = LONG._replace(memory=4 << 30)  # else memory ends first
  box = make(limits=wide, packages=[str(folder)])
  starts = (
    'import threading\ndone = threading.Event()\nn = 0\n'
    'threading.stack_size(1 << 16)\n'
    'try:\n'
    '  for _ in range(64):\n'
    '    threading.Thread(target=done.wait, daemon=True).start()\n'
    '    n += 1\n'
    'except RuntimeError:\n  pass\n'
  )
  with meanwhile(monkeypatch, box, starts + 'pause(n)', folder) as first:
    second = box.run(starts + 'print(n)')
  assert second == (f'{LONG.threads - 1}\n', '')
  assert first == [second]


# Makes a sandbox where its user has more threads already than a run may have.
BUSY = """
import sys, threading
from agentrl.tool.sandbox.sandbox import Limits, Sandbox
done = threading.Event()
threading.stack_size(1 << 16)
for _ in range(40):
  threading.Thread(target=done.wait, daemon=True).start()
try:
  box = Sandbox(Limits(seconds=60), layers=sys.argv[1:])
except RuntimeError as error:
  sys.exit(f'refused: {error}')
print(*box.run('''
import threading
done = threading.Event()
threading.stack_size(1 << 16)
for _ in range(4):
  threading.Thread(target=done.wait, daemon=True).start()
print('four')
'''))
"""


@pytest.mark.nightly
@pytest.mark.parametrize('layers', [sandbox.LAYERS, WITHOUT_FOLDER])
def test_threads_of_its_user_are_not_those_of_a_run(layers):
  """Where there is no root, the kernel counts those of the trainer too."""
  if os.geteuid():
    pytest.skip('only root can try it as another user')
  done = subprocess.run(
    ['/usr/bin/python3', '-P', '-c', BUSY, *layers],
    env={'PYTHONPATH': str(pathlib.Path(__file__).parents[3])},
    user=12345,
    group=12345,
    extra_groups=[],
    cwd='/',
    capture_output=True,
    text=True,
    check=False,
  )
  if done.stderr.startswith('refused: '):
    pytest.skip(done.stderr)
  assert done.stdout == 'four\n \n', done.stderr


def slow(*case):
  return pytest.param(*case, marks=pytest.mark.nightly)


@pytest.mark.parametrize(
  ('layers', 'named', 'needed'),
  [
    ([], ('files', 'network', 'processes'), 'seccomp'),
    slow(['seccomp', 'user'], ('files',), 'Landlock'),
    slow(['landlock', 'user'], ('network', 'processes'), 'user namespaces'),
    slow(['namespaces', 'landlock', 'user'], ('processes',), 'seccomp'),
  ],
)
def test_it_refuses_and_names_what_is_missing(layers, named, needed):
  made(limits=LONG)  # else there is another reason
  with pytest.raises(RuntimeError) as caught:
    Sandbox(layers=layers, python=everybodys_python())
  sentence = str(caught.value)
  assert needed in sentence
  for name in sandbox.GUARANTEES:
    assert (f'{name} needs' in sentence) == (name in named), sentence


@pytest.mark.parametrize(
  ('settings', 'match'),
  [
    (dict(limits=SandboxLimits(seconds=0)), 'seconds 0'),
    (dict(limits=SandboxLimits(memory=1 << 20)), 'memory 1048576'),
    (dict(packages=['here']), ''),
    (dict(layers=['chroot']), 'chroot'),
    (dict(python='/no/python'), '/no/python'),
  ],
)
def test_mistakes_are_named(settings, match):
  with errors.raises(ValueError, match):
    Sandbox(**settings)


@pytest.mark.nightly
def test_nothing_outlives_the_program_that_asked():
  """It is killed, and has no time to clean up."""
  made()
  asking = subprocess.Popen(
    [
      sys.executable,
      '-c',
      'from agentrl.tool.sandbox.sandbox import *\n'
      'import sys, subprocess\n'
      'print(os.getpid(), flush=True)\n'
      'Sandbox(Limits(seconds=1000)).run("import time; time.sleep(1000)")',
    ],
    stdout=subprocess.PIPE,
    env=os.environ | {'PYTHONPATH': os.pathsep.join(sys.path)},
  )
  children = f'/proc/{asking.pid}/task/{asking.pid}/children'
  asking.stdout.readline()
  seen, quiet = set(), 0
  while quiet < 20:  # the last child is the run, all before it are trials
    now = set(pathlib.Path(children).read_text().split())
    quiet = quiet + 1 if now and now <= seen else 0
    seen |= now
    time.sleep(0.2)
  asking.kill()
  asking.wait()
  for _ in range(100):
    if not [pid for pid, at in everybody().items() if str(at) in seen]:
      return
    time.sleep(0.1)
  raise AssertionError('the code still runs')
