"""OpenEnv's own server: many sessions, and its death in the middle.

AGENTRL_OPENENV_PYTHON is the interpreter of a virtual environment with openenv.
"""

import os
import pathlib
import socket
import subprocess
import time

import pytest

from agentrl.env.external.openenv import OpenEnv
from agentrl.rollout.workers import pool
from agentrl.rollout.workers.replies import EnvError
from agentrl.runtime import install

pytest.importorskip('websockets', reason=install.command('host'))
PYTHON = os.environ.get('AGENTRL_OPENENV_PYTHON', '')
SCRIPT = pathlib.Path(__file__).with_name('openenv_own_server.py')
WAIT = 120
pytestmark = [
  pytest.mark.nightly,
  pytest.mark.skipif(not PYTHON, reason='set AGENTRL_OPENENV_PYTHON'),
]


class Server:
  def __init__(self, sessions):
    with socket.create_server(('127.0.0.1', 0)) as free:
      self.port = free.getsockname()[1]
    self.sessions = sessions
    self.start()

  def start(self):
    self.process = subprocess.Popen(
      [PYTHON, str(SCRIPT), str(self.port), str(self.sessions)]
    )
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
      try:
        socket.create_connection(('127.0.0.1', self.port), 1).close()
      except OSError:
        time.sleep(0.1)
      else:
        return
    raise TimeoutError('the server did not start')

  def kill(self):
    self.process.kill()
    self.process.wait()


@pytest.fixture
def server():
  it = Server(64)
  yield it
  it.kill()


def family(server, **fields):
  made = OpenEnv(f'http://127.0.0.1:{server.port}', **fields)
  made.check()
  return made


def test_64_sessions_200_episodes(server):
  """More workers than sessions: those that are refused wait."""
  made = family(server, solved=1.5)
  with pool.env_workers(made, 64) as workers:
    seeds, ended = iter(range(200)), 0
    at, turns = {}, {}

    def begin(i):
      seed = next(seeds, None)
      if seed is not None:
        at[i], turns[i] = seed, 0
        futures[i] = workers[i].reset({'seed': seed}, 0)

    futures = {}
    for i in range(64):
      begin(i)
    while futures:
      i = workers.answered.get(timeout=WAIT)
      out = futures.pop(i).result()
      text = out if isinstance(out, str) else out.text
      want = f'{at[i]}: {turns[i]}' if turns[i] else f'begin {at[i]}'
      assert text == want
      if isinstance(out, str) or not out.done:
        turns[i] += 1
        futures[i] = workers[i].step(str(turns[i]))
      else:
        assert (turns[i], out.score) == (3, 1.0)
        ended += 1
        begin(i)
    assert ended == 200


def test_more_sessions_than_it_holds_wait():
  small = Server(2)
  try:
    with pool.env_workers(family(small, settings='length=1'), 6) as workers:
      waiting = [w.reset({'seed': i}, 0) for i, w in enumerate(workers)]
      served = set()
      while len(served) < 6:
        i = workers.answered.get(timeout=WAIT)
        assert waiting[i].result() == f'begin {i}'
        served.add(i)
        workers[i].close()  # gives its session back
  finally:
    small.kill()


def test_its_death_costs_the_episodes_under_way(server):
  with pool.env_workers(family(server), 16) as workers:
    for i, w in enumerate(workers):
      w.reset({'seed': i}, 0).result(WAIT)
    server.kill()
    lost = [w.step('x') for w in workers]
    for future in lost:
      with pytest.raises(EnvError) as caught:
        future.result(WAIT)
      assert caught.value.kind == 'exception'
    begun = [w.reset({'seed': 7}, 0) for w in workers]
    server.start()
    assert {x.result(WAIT) for x in begun} == {'begin 7'}
    assert workers[0].step('x').result(WAIT).text == '7: x'
    assert workers[0].step('raise').exception(WAIT).kind == 'exception'
