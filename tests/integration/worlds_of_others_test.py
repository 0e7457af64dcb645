"""Environments of others train a model of two layers."""

import contextlib
import json
import os
import pathlib
import sys

import numpy as np
import pytest

from agentrl.configs import arpo, grpo
from agentrl.log import metrics
from agentrl.run import runner
from agentrl.runtime import install
from tests.env.external import openenv_server
from tests.run import small_configs

pytestmark = pytest.mark.slow
PLACE = 'tests.env.external'
SERVER = pathlib.Path(openenv_server.__file__).with_name('orders_server.py')
GEM, PETTINGZOO = (
  os.environ.get(f'AGENTRL_{x}_PYTHON', '') for x in ('GEM', 'PETTINGZOO')
)


def needs(python: str):
  return [
    pytest.mark.nightly,
    pytest.mark.skipif(not python, reason='set AGENTRL_..._PYTHON'),
  ]


@contextlib.contextmanager
def openenv(folder):
  with openenv_server.Server() as server:
    yield {'address': server.address, 'solved': 1.5}


@contextlib.contextmanager
def mcp(folder):
  rows = [
    {'prompt': f'How many orders has {"x" * i}?', 'answer': i + 10}
    for i in range(1, 40)
  ]
  tasks = folder / 'tasks.jsonl'
  tasks.write_text(''.join(f'{json.dumps(x)}\n' for x in rows))
  yield {
    'server': f'{sys.executable} {SERVER}',
    'path': str(tasks),
    'verifier': 'numeric',
  }


def settings(**env):
  return lambda folder: contextlib.nullcontext(env)


WORLDS = [
  pytest.param('openenv', openenv, id='openenv', marks=pytest.mark.nightly),
  pytest.param('mcp', mcp, id='mcp', marks=pytest.mark.nightly),
  pytest.param(
    'gymnasium_text',
    settings(make=f'{PLACE}.text_envs:make'),
    id='gymnasium_text',
    marks=pytest.mark.nightly,
  ),
  pytest.param(
    'pettingzoo', settings(make=f'{PLACE}.aec_games:count'), id='pettingzoo'
  ),
  pytest.param(
    'gymnasium_text',
    settings(make='gem:make', id='game:GuessTheNumber-v0-easy', python=GEM),
    id='gem',
    marks=needs(GEM),
  ),
  pytest.param(
    'pettingzoo',
    settings(
      make='pettingzoo.classic.tictactoe_v3:env',
      python=PETTINGZOO,
    ),
    id='pettingzoo itself',
    marks=needs(PETTINGZOO),
  ),
]


@pytest.mark.parametrize(('name', 'world'), WORLDS)
def test_two_updates(tmp_path, monkeypatch, name, world):
  """What is trained is what was sampled, and no episode fails.

  One of them branches: beginnings of episodes are played again by messages.
  """
  if package := {'openenv': 'websockets', 'mcp': 'mcp'}.get(name):
    pytest.importorskip(package, reason=install.command('host'))
  # Where a server of MCP finds its package.
  monkeypatch.setenv('PYTHONPATH', os.pathsep.join(sys.path))
  method = arpo if name == 'gymnasium_text' else grpo
  c = small_configs.two_layers(method.get_config(f'tiny,env={name}'), tmp_path)
  c.rollout.max_turns, c.host.max_observation_tokens = 3, 96
  with world(tmp_path) as env:
    c.env.update(dict(train=8, test=4) | env)
    runner.run(c, str(tmp_path / 'run'))
  rows = metrics.read(str(tmp_path / 'run' / 'metrics.jsonl'))
  steps = [x for x in rows if x.get('phase') == 'rl']
  assert [x['step'] for x in steps] == [1, 2]
  for x in steps:
    assert x['logp/sampler_mismatch_max'] < 5e-5
    assert not [n for n in x if 'rollout/fault/' in n]
    assert np.isfinite(x['loss/total'])
    assert x['rollout/turns'] >= 1
  (evaluated, *_) = (x for x in rows if x.get('phase') == 'eval')
  assert evaluated['eval/episodes'] == 4
