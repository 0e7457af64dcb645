"""What is not a command's own: a hundred programs reach for it.

As root and as another user, with namespaces and without, in one process each,
since most programs are one system call.
"""

import contextlib
import json
import os
import pathlib
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

import pytest

from agentrl.env.files import program_run
from agentrl.tool.sandbox import sandbox
from agentrl.tool.sandbox.native import command
from tests.tool.sandbox import ordinary, trespasses

pytestmark = [
  pytest.mark.skipif(
    bool(program_run.confinement()), reason='the kernel cannot keep it'
  ),
  pytest.mark.skipif(
    platform.machine() != 'x86_64', reason='numbers of calls of x86_64'
  ),
]
HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[2]
OTHER = 54321  # a user that nobody is
SECRET = 'a secret of the user'
# What docs/TOOLS.md says is not kept where there are no namespaces.
SEEN = {'proc_command_line', 'proc_status', 'proc_descriptors'}
SEEN |= {'common_key_names', 'network_other_address'}
CHANGED = {'file_mode', 'file_mode_of_open', 'file_group', 'file_times'}


class Place:
  """A user with a process, files, servers and a folder for a command."""

  def __init__(self, folder: pathlib.Path, user: int):
    self.user, self.folder = user, folder
    self.python = sys.executable
    if user != os.getuid():
      self.python = '/usr/bin/python3'
    self.given = {}

  def popen(self, words, **settings):
    as_user = {}
    if self.user != os.getuid():
      as_user = dict(user=self.user, group=self.user, extra_groups=[])
    return subprocess.Popen(
      words, stdout=subprocess.PIPE, text=True, **as_user, **settings
    )

  @contextlib.contextmanager
  def owner(self):
    """A process that has what is described in `trespasses`."""
    home = self.folder / 'home'
    home.mkdir()
    os.chown(home, self.user, self.user)
    # Others may not be able to read the repository.
    for name in ('__init__.py', 'tool'):
      to_copy, copy = ROOT / 'agentrl' / name, self.folder / 'agentrl' / name
      copy.parent.mkdir(exist_ok=True)
      (shutil.copytree if to_copy.is_dir() else shutil.copy)(to_copy, copy)
    for name in ('owner.py', 'trespasses.py', 'ordinary.py'):
      shutil.copy(HERE / name, self.folder / name)
    key = 7_000_000 + 2 * os.getpid()
    script = self.folder / 'owner.py'
    owner = self.popen(
      [self.python, script, home, str(key), str(key + 1), SECRET],
      stdin=subprocess.PIPE,
      cwd=home,
      env={'SECRET': SECRET},
      start_new_session=True,
    )
    self.given = json.loads(owner.stdout.readline())
    self.end = lambda: json.loads(owner.communicate('\n', timeout=60)[0])
    try:
      yield
    finally:
      owner.send_signal(signal.SIGCONT)
      with contextlib.suppress(OSError, ValueError):  # it has ended
        owner.communicate('\n', timeout=60)

  @contextlib.contextmanager
  def servers(self):
    """What a command could connect to, and an open file."""
    private = self.folder / 'private'
    private.write_text(SECRET)
    if os.getuid() == 0:
      os.chown(private, OTHER + 1, OTHER + 1)
    private.chmod(0o600)
    path, abstract = str(self.folder / 'unix'), f'{self.folder}/abstract'
    servers = [
      answering(('0.0.0.0', 0)),
      answering(('0.0.0.0', 0)),
      answering(path, socket.AF_UNIX),
      answering('\0' + abstract, socket.AF_UNIX),
    ]
    data = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    data.bind(path + '-data')
    servers.append(data)
    for name in (path, path + '-data'):
      os.chmod(name, 0o777)
    extra = os.open(private, os.O_RDONLY)
    self.given |= dict(
      trainer=os.getpid(),
      private=str(private),
      port=servers[0].getsockname()[1],
      other=servers[1].getsockname()[1],
      address='127.0.0.2',
      unix=path,
      data=path + '-data',
      abstract=abstract,
      extra=extra,
    )
    try:
      yield
    finally:
      os.close(extra)
      for server in servers:
        server.close()

  def run(self, apart: bool, *words: str) -> str:
    """-> what a command prints."""
    box = self.folder / f'box{apart}'
    box.mkdir(exist_ok=True)
    os.chown(box, self.user, self.user)
    whole = command.wrapped(self.given['port'], str(box), list(words), apart)
    program = self.folder / pathlib.Path(command.__file__).relative_to(ROOT)
    whole[whole.index(command.__file__)] = str(program)
    environ = {'PATH': os.environ['PATH'], 'HOME': box, 'TMPDIR': box}
    with self.popen(
      [self.python, *whole[1:]],
      cwd=box,
      stderr=subprocess.STDOUT,
      env=environ,
      pass_fds=[self.given['extra']],
    ) as process:
      text, _ = process.communicate(timeout=120)
    return text

  def state(self):
    """What nobody may change of the owner's process and file."""
    process, file = self.given['victim'], os.stat(self.given['canary'])
    place = pathlib.Path(f'/proc/{process}')
    fields = (place / 'stat').read_text().rpartition(')')[2].split()
    return dict(
      stopped=fields[0] == 'T',
      group=fields[2],
      nice=fields[16],
      scheduler=os.sched_getscheduler(process),
      processors=os.sched_getaffinity(process),
      limits=(place / 'limits').read_text(),
      name=(place / 'comm').read_text(),
      score=(place / 'oom_score_adj').read_text(),
      file=(file.st_size, file.st_nlink, file.st_uid),
      text=pathlib.Path(self.given['canary']).read_text(),
    )


def answering(address, family=socket.AF_INET) -> socket.socket:
  """A server that says one byte to all that connects."""
  server = socket.socket(family, socket.SOCK_STREAM)
  server.bind(address)
  server.listen(64)

  def answer():
    with contextlib.suppress(OSError):
      while True:
        with server.accept()[0] as near:
          near.send(b'x')

  threading.Thread(target=answer, daemon=True).start()
  return server


@pytest.fixture(
  params=[
    pytest.param(os.getuid(), id='root' if os.getuid() == 0 else 'user'),
    pytest.param(OTHER, id='another'),
  ]
)
def place(request):
  if request.param != os.getuid() and os.getuid():
    pytest.skip('only root can try it as another user')
  # Not in a folder of pytest's, which closes those to others.
  with tempfile.TemporaryDirectory() as folder:
    os.chmod(folder, 0o755)
    held = Place(pathlib.Path(folder), request.param)
    with held.owner(), held.servers():
      yield held


by_namespaces = pytest.mark.parametrize(
  'apart', [True, False], ids=['namespaces', 'none']
)


# Runs its input; its arguments are the layers.
IN_A_SANDBOX = """
import sys
from agentrl.tool.sandbox.sandbox import Sandbox, SandboxLimits
limits = SandboxLimits(seconds=120, output=1 << 20)
try:
  box = Sandbox(limits, layers=sys.argv[1:])
except RuntimeError as error:
  print("refused", error)
  sys.exit()
outcome = box.run(sys.stdin.read())
assert not outcome.fault, outcome
print(outcome.text)
"""


def words(held: Place, **also) -> list[str]:
  """The command line of all programs."""
  script = str(held.folder / 'trespasses.py')
  return [held.python, '-I', '-S', script, json.dumps(held.given | also)]


def unharmed() -> dict:
  """What `Place.end` says where nothing was reached."""
  kinds = 'memory', 'semaphores', 'messages', 'queue'
  return dict.fromkeys(kinds, 0) | dict(
    signals=0,
    shared=True,
    attributes=['user.there'],
    beside=['canary', 'pipe'],
    new=[],
  )


@by_namespaces
def test_no_program_reaches_what_is_not_its_own(place, apart):
  before = place.state()
  text = place.run(apart, *words(place))
  said = json.loads(text)
  assert set(said) == set(trespasses.PROGRAMS)
  reached = {name for name, how in said.items() if how is True}
  assert reached == (set() if apart else SEEN | CHANGED)
  assert place.state() == before
  assert place.end() == unharmed()


@by_namespaces
def test_no_code_in_a_sandbox_does_either(place, apart):
  code = pathlib.Path(trespasses.__file__).read_text()
  layers = sandbox.LAYERS if apart else sandbox.LAYERS[1:]
  before = place.state()
  with place.popen(
    ['/usr/bin/python3', '-P', '-c', IN_A_SANDBOX, *layers],
    stdin=subprocess.PIPE,
    cwd='/',
    env={'PYTHONPATH': str(place.folder)},
  ) as process:
    given = f'GIVEN = {place.given!r}\n{code}'
    text, _ = process.communicate(given, timeout=120)
  if text.startswith('refused'):
    pytest.skip(text)
  said = json.loads(text)
  assert set(said) == set(trespasses.PROGRAMS)
  assert [name for name, how in said.items() if how is True] == []
  assert place.state() == before
  assert place.end() == unharmed()


@by_namespaces
def test_ordinary_programs_run(place, apart):
  script = str(place.folder / 'ordinary.py')
  text = place.run(apart, place.python, script, str(place.given['port']))
  assert text == f'{len(ordinary.TASKS)}\n'


# What only works where a user may do it is not tried as root on a host.
BEYOND = {
  'process_nice_user', 'process_nice_self_as_user', 'process_timer_for_thread',
  'process_kill_trainer_zero', 'process_advise_memory', 'process_change_group',
  'process_write_memory', 'process_count', 'process_count_all',
  'process_share_a_core', 'process_enter_namespace', 'process_release_memory',
  'proc_control_group', 'network_sequence', 'network_raw', 'network_ping',
  'network_packets', 'network_associations', 'network_ciphers',
  'network_express', 'network_other_port_6', 'proc_environ_of_trainer',
  'proc_memory', 'proc_stack', 'proc_descriptor', 'proc_name',
  'proc_timer_slack', 'proc_label', 'proc_user_map', 'proc_system',
  'proc_core_pattern', 'proc_system_request', 'proc_kernel_memory',
  'common_terminal', 'common_typing',
}  # fmt: skip
HARMLESS_AS_ROOT = (
  'read_private', 'change_root', 'owner', 'no_access_time', 'device',
  'new_mount', 'copy_mount', 'mounts', 'networks', 'open_by_handle',
  'become', 'groups', 'haste', 'real_time', 'more_limit',
)  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize('name', trespasses.PROGRAMS)
def test_it_reaches_it_where_there_is_no_sandbox(place, name):
  """Otherwise the test above would show nothing."""
  as_root = name.startswith('root_')
  if as_root != (place.user == 0):
    pytest.skip('for another user')
  if name in BEYOND or (as_root and name[5:] not in HARMLESS_AS_ROOT):
    pytest.skip('it needs more, or would harm the host')
  before = place.state()
  home = place.folder / 'bare'
  home.mkdir()
  os.chown(home, place.user, place.user)
  with place.popen(
    words(place, only=[name]), cwd=home, env={}, pass_fds=[place.given['extra']]
  ) as process:
    text, _ = process.communicate(timeout=60)
  if text and json.loads(text)[name] is True:
    return
  harmed = True
  with contextlib.suppress(OSError, ValueError):  # where the owner is gone
    harmed = place.state() != before or place.end() != unharmed()
  assert harmed, text
