"""OpenEnv as a family, against a small server that speaks its language."""

import pytest

from agentrl.env import splits
from agentrl.env.external import openenv
from agentrl.env.external.openenv import OpenEnv
from agentrl.env.external.openenv_client import Observation
from agentrl.runtime import install
from tests import errors
from tests.env.external import configured, openenv_server

pytest.importorskip('websockets', reason=install.command('host'))
WAIT = 60


@pytest.fixture(scope='module')
def server():
  with openenv_server.Server() as it:
    yield it


def test_episodes_are_seeds(server):
  family = OpenEnv(server.address, settings='level=3', solved=1.5)
  family.check()
  (task,) = family.tasks('train', 1, 0)
  assert splits.split_of(task.key) == 'train'
  env = family.env()
  assert env.reset(task.task, 9) == f'begin {task.task["seed"]}'
  assert server.resets[-1] == {'seed': task.task['seed'], 'level': 3}
  steps = [env.step(x) for x in ('a', '{"message": 3}', 'b')]
  assert [(x.reward, x.done, x.score) for x in steps] == [
    (0.5, False, 0.0),
    (0.5, False, 0.0),
    (0.5, True, 1.0),
  ]
  env.reset(task.task, 9)
  assert env.step('stop')[:4] == (f'{task.task["seed"]}: stop', 0.5, True, 0.0)
  env.close()


def test_actions_without_one_text_are_json():
  schema = {'properties': {'message': {'type': 'string'}, 'n': {}}}
  with openenv_server.Server(schema=schema) as server:
    env = OpenEnv(server.address).env()
    env.reset({'seed': 1}, 0)
    for message in ('go', '[1]', '{"note": 1}', '[' * 100_000):
      reply = env.step(message)
      assert reply.invalid
      assert not reply.done
    assert env.step('{"message": "go"}').text == '1: go'
    env.close()
    named = OpenEnv(server.address, action='message').env()
    named.reset({'seed': 2}, 0)
    assert named.step('go').text == '2: go'
    named.close()


def test_fields():
  assert openenv.text_field({}) == ''
  assert openenv.text_field({'properties': {'n': {'type': 'integer'}}}) == ''
  assert openenv.text_field({'properties': {'a': True}}) == ''
  assert openenv.text_field({'properties': None}) == ''
  two = {'a': {'type': 'string'}, 'b': {'type': 'string'}}
  assert openenv.text_field({'properties': two}) == ''
  one = {'a': {'type': 'string'}, 'metadata': {'type': 'object'}}
  assert openenv.text_field({'properties': one}) == 'a'

  def shown(field, **fields):
    return openenv.shown(Observation(fields, 0.0, False), field)

  assert shown('', echo='é', n=1) == 'é'
  assert shown('', a='x', b='y') == '{"a": "x", "b": "y"}'
  assert shown('b', a='x', b='y') == 'y'
  assert shown('n', a='x', n=[1]) == '{"n": [1]}'
  with errors.raises(ValueError, 'env.shown c'):
    shown('c', a='x')


def test_mistakes_come_before_anything_is_made():
  nobody = 'http://127.0.0.1:1'
  configured.refuses('openenv', 'env.address')
  configured.refuses('openenv', 'env.address', address=nobody)
  configured.refuses('openenv', 'env.settings', address=nobody, settings='1')
