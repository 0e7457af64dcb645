"""Users and judges of a run: what its config says of them, and what they do."""

import json
import threading

import pytest
from absl import flags
from ml_collections import config_flags

from agentrl.configs import base
from agentrl.run import build, runner, workdir
from agentrl.run.play import sampler, services
from agentrl.service.base import ServiceFault
from agentrl.text.message import Message
from tests import errors
from tests.run.small_configs import interview as config
from tests.service import chat_completions_test

TRUTHFUL = 'agentrl.env.worlds.interview:truthful'


def numbered(messages, *, seed):
  return f'The length says {len(messages[0].content) % 10 / 10}'


def broken(messages, *, seed):
  raise OSError('no connection')


# What a config can get wrong.


def test_a_config_has_the_services_that_its_environment_asks(tmp_path):
  c = config(tmp_path)
  assert tuple(c.service) == ('user',)
  assert c.service.user.function == TRUTHFUL
  assert tuple(base.get_config('env=countdown,judge').service) == ('judge',)
  both = base.get_config('env=interview,judge').service
  assert set(both) == {'user', 'judge'}
  assert not base.get_config('env=countdown').service
  c = config(tmp_path, 'tiny,env=countdown,judge')
  c.service.judge.function = f'{__name__}:numbered'
  assert 'own' in build.experiment(c).world.family.columns


def test_flags_reach_it():
  values, argv = (
    flags.FlagValues(),
    [
      'main',
      '--config=configs/grpo.py:tiny,env=interview',
      '--config.service.user.function=',
      '--config.service.user.role=policy',
      '--config.service.user.temperature=0.5',
    ],
  )
  holder = config_flags.DEFINE_config_file(
    'config', None, lock_config=True, flag_values=values, sys_argv=argv
  )
  values(argv)
  user = holder.value.service.user
  assert (user.function, user.role, user.temperature) == ('', 'policy', 0.5)


def test_a_mistake_is_told_before_anything_is_made(tmp_path):
  c = config(tmp_path)
  c.host.worker = 'process'
  with errors.raises(ValueError, 'process user'):
    build.experiment(c)
  assert not (tmp_path / 'data').exists()


def test_a_service_ends_where_the_positions_of_its_model_do(tmp_path):
  c = config(tmp_path, role='policy')
  c.model.positions = c.service.user.context - 1
  s = build.experiment(c)
  with errors.raises(ValueError, 'service.user.context 200 199'):
    services.Services(s, {})


def test_services_are_for_host_environments(tmp_path):
  c = config(tmp_path, 'tiny,env=frozen_lake,judge')
  with errors.raises(ValueError, 'service.judge'):
    build.experiment(c)


def test_a_run_of_another_model_is_refused(tmp_path):
  other = config(tmp_path)
  other.model.width = 32
  workdir.keep_config(other, str(tmp_path / 'other'))
  c = config(tmp_path, run=str(tmp_path / 'other'))
  s = build.experiment(c)
  with errors.raises(ValueError, 'service.user.run model.width 32'):
    sampler.open_sampler(s).__enter__()
  c.service.user.run = str(tmp_path / 'nowhere')
  with pytest.raises(ValueError):
    sampler.open_sampler(s).__enter__()


# What they do.


@pytest.fixture
def server(monkeypatch):
  """A server that answers every question by 'no'; it repeats the key."""
  monkeypatch.setenv('OPENAI_API_KEY', chat_completions_test.KEY)
  made = chat_completions_test.Server()
  answer = chat_completions_test.completion('no')
  made.script = [
    (500, {'error': chat_completions_test.KEY}, {}),
    (401, {'error': chat_completions_test.KEY}, {}),
    (200, answer | {'key': chat_completions_test.KEY}, {}),
  ]
  threading.Thread(target=made.serve_forever, daemon=True).start()
  yield made
  made.shutdown()
  made.server_close()


def served(tmp_path, server):
  c = config(tmp_path, address=server.address, model='a-model')
  c.service.user.system = 'You are patient.'
  return c


def without_key(folder, *texts):
  files = [x.read_bytes() for x in folder.rglob('*') if x.is_file()]
  assert files
  key = chat_completions_test.KEY.encode()
  assert not any(key in data for data in (*files, *map(str.encode, texts)))


def test_a_server_answers_and_is_counted(tmp_path, server, caplog):
  s = build.experiment(served(tmp_path, server))
  opened = services.Services(s, {}, str(tmp_path / 'run'))
  user = opened._watched['user']
  ask = [Message('user', 'below 15?')]
  with errors.raises(ServiceFault, '401') as error:
    user(ask, seed=1)
  assert user(ask, seed=1) == user(ask, seed=1) == 'no'
  opened.close()
  counts = opened.taken()
  assert counts['service/user/calls'] == 3
  assert counts['service/user/failed'] == 1
  assert counts['service/user/requests'] == 3
  assert counts['service/user/retries'] == 1
  assert counts['service/user/read'] == 9
  _, _, body = server.requests[-1]
  assert body['messages'][0]['content'] == 'You are patient.'
  assert (body['model'], body['max_tokens']) == ('a-model', 5)
  without_key(
    tmp_path, caplog.text, str(error.value), workdir.text_of(s.config)
  )


@pytest.mark.nightly
def test_a_run_with_a_server_writes_no_key(tmp_path, server, caplog, capfd):
  c = served(tmp_path, server)
  c.steps, c.sft.steps, c.eval.episodes = 1, 1, 4
  c.rollout.update(dict(max_message_tokens=24, max_turns=5))
  runner.run(c, str(tmp_path / 'one'))
  lines = (tmp_path / 'one/services/user.0.jsonl').read_text().splitlines()
  assert {json.loads(line)['answer'] for line in lines} == {'no'}
  without_key(tmp_path, caplog.text, *capfd.readouterr())


@pytest.mark.nightly
@pytest.mark.parametrize('source', ['function', 'reference', 'run'])
def test_a_run_with_a_user(tmp_path, source):
  """Warm start, a step of RL, evaluation; then another run as the user."""
  c = config(tmp_path)
  c.steps, c.sft.steps, c.eval.episodes = 1, 1, 4
  c.rollout.update(dict(max_message_tokens=24, max_turns=5))
  c.micro_batch = 4
  if source == 'reference':
    base.role(c, 'reference', kind='frozen')
    c.service.user.update(dict(function='', role='reference', message=4))
  runner.run(c, str(tmp_path / 'one'))
  if source == 'run':
    c.service.user.update(
      dict(function='', run=str(tmp_path / 'one'), temperature=0.0)
    )
    runner.run(c, str(tmp_path / 'two'))
  last = tmp_path / ('two' if source == 'run' else 'one') / 'metrics.jsonl'
  rows = [json.loads(line) for line in last.read_text().splitlines()]
  calls = [r['rollout/service/user/calls'] for r in rows if r['phase'] == 'rl']
  assert calls[0] >= 4
  shown = runner.evaluate_run(str(last.parent), episodes=4)
  assert 'of 4 episodes' in shown
