"""Tasks of verifiers: a process with a small package of its interfaces.

AGENTRL_VERIFIERS_PYTHON is the interpreter of a virtual environment with
verifiers and uv, with which the last test plays against the gateway.
"""

import contextlib
import http.server
import json
import os
import pathlib
import sys
import threading

import numpy as np
import pytest

from agentrl.env import base, splits
from agentrl.env.external import verifiers
from agentrl.env.external.line_server import LineError
from agentrl.env.external.verifiers import Verifiers
from tests import errors
from tests.env.external import configured

PYTHON = os.environ.get('AGENTRL_VERIFIERS_PYTHON', '')
# The names that are used of verifiers, as 0.4.0 has them.
PACKAGE = {
  '__init__.py': '',
  'v1/__init__.py': 'class SamplingConfig: pass',
  'v1/clients.py': """
import dataclasses

@dataclasses.dataclass
class EvalClientConfig:
  base_url: str
  api_key_var: str

@dataclasses.dataclass
class ModelContext:
  model: str
  client: EvalClientConfig
  sampling: object
""",
  'v1/utils/__init__.py': '',
  'v1/utils/loaders.py': """
import asyncio, contextlib, json, os, types, urllib.request

def resolve_env_config(data):
  assert data['agent']['runtime'] == {'type': 'subprocess'}
  return data

class Env:
  def __init__(self, config):
    print('what it prints is no answer')
    self.taskset = iter(range(config['taskset']['count']))

  @contextlib.asynccontextmanager
  async def serving(self):
    yield

  async def run_episode(self, task, context):
    if task == 1:
      os._exit(4)
    if task == 2:
      error = types.SimpleNamespace(type='HarnessError', message='it broke')
      return types.SimpleNamespace(ok=False, errors=[error], traces=[])
    url = context.client.base_url + '/chat/completions'
    key = os.environ[context.client.api_key_var]
    body = json.dumps({'model': context.model, 'task': task}).encode()
    request = urllib.request.Request(url, body, {'Authorization': key})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    reply = await asyncio.to_thread(lambda: json.load(opener.open(request)))
    traces = [types.SimpleNamespace(reward=x) for x in (reply['reward'], 0.5)]
    return types.SimpleNamespace(ok=True, errors=[], traces=traces)

def load_environment(config):
  return Env(config)
""",
}


@pytest.fixture(scope='module')
def python(tmp_path_factory):
  """An interpreter that has such a package, of version 0.4.9."""
  folder = tmp_path_factory.mktemp('venv')
  for name, text in PACKAGE.items():
    path = folder / 'site/verifiers' / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
  made = folder / 'python'
  made.write_text(
    '#!/bin/sh\n'
    '[ "$1" = -I ] && { echo 0.4.9; exit; }\n'
    f'PYTHONPATH={folder}/site:$PYTHONPATH exec {sys.executable} -S "$@"\n'
  )
  made.chmod(0o755)
  return str(made)


@contextlib.contextmanager
def gateway():
  """An address, and the bodies that were posted there."""
  posted = []

  class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
      body = json.loads(self.rfile.read(int(self.headers['content-length'])))
      posted.append((self.path, self.headers['authorization'], body))
      out = json.dumps({'reward': body.get('task', 0) - 3.25}).encode()
      self.send_response(200)
      self.send_header('content-length', str(len(out)))
      self.end_headers()
      self.wfile.write(out)

    def log_message(self, *_):
      pass

  server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
  thread = threading.Thread(target=server.serve_forever)
  thread.start()
  yield f'http://127.0.0.1:{server.server_port}/s/1', posted
  server.shutdown()
  thread.join()
  server.server_close()


def test_an_episode_posts_its_reward(python):
  family = Verifiers(python=python, taskset='t', settings='count=6')
  with gateway() as (address, posted):

    def run(index):
      return family.start({'index': index}, 0, address, 'secret')

    both = [run(4), run(3)]
    for one in both:
      one.wait()
    sent = {x[2]['task']: x for x in posted if 'task' in x[2]}
    assert set(sent) == {3, 4}
    assert sent[4] == (
      '/s/1/v1/chat/completions',
      'secret',
      {'model': 'policy', 'task': 4},
    )
    rewards = [x for x in posted if x[0] == '/s/1/reward']
    assert {x[1] for x in rewards} == {'Bearer secret'}
    # What a trace earned, and 0.5 of the other; a score is from 0 to 1.
    assert [x[2] for x in rewards] == [
      {'reward': 1.25, 'score': 1.0},
      {'reward': 0.25, 'score': 0.25},
    ]
    with errors.raises(LineError, 'HarnessError'):
      run(2).wait()
    with errors.raises(LineError, '6 env.size'):
      run(6).wait()
    with errors.raises(LineError, '4'):
      run(1).wait()
    run(5).wait()
    assert posted[-1][2] == {'reward': 2.25, 'score': 1.0}
  verifiers._server(family).close()


def test_tasks_are_places():
  family = Verifiers(taskset='t', size=40)
  assert isinstance(family, base.FiniteFamily)
  sizes = family.sizes()
  assert sum(sizes.values()) == 40
  seen = []
  for split, n in sizes.items():
    tasks = list(family.tasks(split, n, 0))
    assert all(splits.split_of(x.key) == split for x in tasks)
    seen += [x.task['index'] for x in tasks]
  assert sorted(seen) == list(range(40))
  with errors.raises(ValueError, 'env.size 40'):
    family.tasks('test', 40, 0)
  with pytest.raises(ValueError):
    Verifiers(taskset='t', size=1).sizes()


def test_mistakes_come_before_anything_is_made(python):
  configured.refuses('verifiers', 'env.python')
  configured.refuses('verifiers', 'env.taskset', python='x')
  for other in ('/bin/no', '/bin/true'):
    configured.refuses('verifiers', '', python=other, taskset='t')
  right = configured.sized('verifiers', python=python, taskset='t')
  assert right.plan.row > 0


@pytest.mark.nightly
@pytest.mark.skipif(not PYTHON, reason='set AGENTRL_VERIFIERS_PYTHON')
def test_verifiers_itself_plays_against_the_gateway(tmp_path, monkeypatch):
  """What it recorded is what the policy said, token by token."""
  from tests.gateway import programs_test

  taskset = pathlib.Path(__file__).with_name('verifiers_taskset.py').read_text()
  (tmp_path / 'even_taskset.py').write_text(taskset)
  monkeypatch.syspath_prepend(str(tmp_path))
  family = Verifiers(python=PYTHON, taskset='even_taskset')
  family.check()
  tasks = [{'index': i} for i in range(4)]
  ended, counts = programs_test.played(family, tasks, n=8)
  assert not [x for x in counts if x.startswith('fault')], counts
  assert counts['program/calls'] == 8
  words = programs_test.WORDS
  for episode in ended:
    (turn,) = episode.turns
    said = words.decode(np.asarray(turn.spoken.ids)).removesuffix('<eot>')
    assert episode.score == float(len(said) % 2 == 0)
  verifiers._server(family).close()
