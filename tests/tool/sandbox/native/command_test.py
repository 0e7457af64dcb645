"""Commands in the sandbox reach their folder and their port, and no more."""

import http.server
import pathlib
import subprocess
import sys
import threading

import pytest

from agentrl.env.files import program_run
from agentrl.tool.sandbox.native import command, namespaces
from tests.tool.sandbox import escapes

pytestmark = pytest.mark.skipif(
  bool(program_run.confinement()), reason='the kernel cannot keep it'
)
# Of sandbox_test's escapes, those from what is kept here. Reading is allowed,
# and so are modes and times of files.
KEPT = (
  'hard_link', 'overwrite', 'append', 'create_beside', 'truncate', 'remove',
  'rename', 'write_pth', 'write_standard_library',
  'kill_another', 'kill_group', 'trace', 'memory_of_another',
  'tcp', 'udp', 'http', 'listen', 'raw_socket', 'packet_socket', 'netlink',
  'unix_stream', 'unix_abstract', 'unix_from_a_pair', 'ring',
)  # fmt: skip
MORE = {
  'mptcp': """
import socket
socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
print('ESCAPED')
""",
  'fast_open': """
import socket
a = socket.socket()
a.sendto(b'x', 0x20000000, ('127.0.0.1', PORT))
print('ESCAPED')
""",
  'a_child': """
import subprocess, sys
code = f"open({CANARY!r}, 'w')"
if not subprocess.run([sys.executable, '-c', code]).returncode:
  print('ESCAPED')
""",
}


def run(port, folder, code, apart=True):
  return subprocess.run(
    command.wrapped(port, str(folder), [sys.executable, '-c', code], apart),
    capture_output=True,
    text=True,
    check=False,
  )


@pytest.fixture
def box(tmp_path_factory):
  return tmp_path_factory.mktemp('box')


by_namespaces = pytest.mark.parametrize(
  'apart', [True, False], ids=['namespaces', 'none']
)


@pytest.mark.parametrize(
  'apart', [pytest.param(True, marks=pytest.mark.nightly), False]
)
@pytest.mark.parametrize('name', [*KEPT, *MORE])
def test_it_does_not_get_out(name, apart, host, box):
  code = MORE[name] if name in MORE else escapes.ESCAPES[name].code
  done = run(1, box, host.given(code), apart)
  assert 'ESCAPED' not in done.stdout.splitlines(), done.stdout
  if name != 'trace':  # it says nothing where it fails
    assert 'Error' in done.stderr
  assert host.state() == host.before
  assert host.victim.poll() is None


@by_namespaces
def test_what_it_may_do(box, apart):
  """It reads, writes into its folder, starts others, calls its port."""
  answer = http.server.ThreadingHTTPServer(
    ('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler
  )
  threading.Thread(target=answer.serve_forever, daemon=True).start()
  code = f"""
import asyncio, os, pathlib, subprocess, sys, urllib.request
box = pathlib.Path({str(box)!r})
(box / 'a').mkdir()
(box / 'a/b').write_text(open({__file__!r}).read()[:3])
os.rename(box / 'a/b', box / 'c')
subprocess.run([sys.executable, '-c', 'print(1)'], check=True)
open('/dev/null', 'w').write('x')
asyncio.run(asyncio.sleep(0))
url = 'http://127.0.0.1:{answer.server_port}/'
opener = urllib.request.build_opener(urllib.request.ProxyHandler({{}}))
print(opener.open(url).status)
"""
  done = run(answer.server_port, box, code, apart)
  answer.shutdown()
  answer.server_close()
  assert done.stdout.split() == ['1', '200'], done.stderr
  assert (box / 'c').read_text() == '"""'


@by_namespaces
def test_a_command_that_is_not_there(box, apart):
  words = command.wrapped(1, str(box), ['no-such-command'], apart)
  done = subprocess.run(words, capture_output=True, text=True, check=False)
  assert done.returncode == command.FAILED
  assert 'no-such-command was not run: [Errno 2]' in done.stdout


# What its processes are: how many it sees, and their namespace.
SEES = """
import os
print(len([x for x in os.listdir('/proc') if x.isdigit()]))
"""


def has_namespaces() -> bool:
  try:
    done = subprocess.run(['unshare', '-Urpf', 'true'], check=False)
  except OSError:
    return False
  return done.returncode == 0


def test_it_sees_no_others_where_it_may_have_namespaces(box):
  if not has_namespaces():
    pytest.skip('the system allows no namespaces')
  assert int(run(1, box, SEES).stdout) == 2  # it, and the first process
  assert int(run(1, box, SEES, apart=False).stdout) > 2


def test_its_processes_are_limited_and_those_of_others_are_not(box):
  if not has_namespaces() or namespaces.release() < (6, 14):
    pytest.skip('the system has one limit for all')
  limit = pathlib.Path('/proc/sys/kernel/pid_max')
  before = limit.read_text()
  done = run(1, box, f'print(open({str(limit)!r}).read())')
  assert int(done.stdout) == command._PROCESSES < int(before)
  assert limit.read_text() == before


def test_without_namespaces_it_is_run_all_the_same(box):
  """In a command there are none: another one is run in it."""
  inner = command.wrapped(1, str(box), [sys.executable, '-c', 'print(7)'])
  code = f'import subprocess\nsubprocess.run({inner!r}, check=True)'
  done = run(1, box, code, apart=False)
  assert done.stdout == '7\n', done.stderr


def test_processes_share_memory_where_it_has_namespaces(box):
  if not has_namespaces():
    pytest.skip('the system allows no namespaces')
  code = """
import multiprocessing, numpy
from multiprocessing import shared_memory
with multiprocessing.get_context('fork').Pool(2) as pool:
  print(sum(pool.map(abs, range(-3, 0))))
held = shared_memory.SharedMemory(create=True, size=8)
numpy.ndarray(1, numpy.int64, held.buf)[0] = 5
held.unlink()
"""
  done = run(1, box, code)
  assert done.stdout == '6\n', done.stderr


@by_namespaces
@pytest.mark.parametrize(
  ('code', 'status'),
  [
    ('raise SystemExit(3)', 3),
    ('import os, signal\nos.kill(os.getpid(), signal.SIGKILL)', -9),
    ('import os, signal\nos.kill(os.getpid(), signal.SIGTERM)', -15),
    ('import os\nos.abort()', -6),
  ],
)
def test_it_ends_as_the_command_does(box, apart, code, status):
  assert run(1, box, code, apart).returncode == status
