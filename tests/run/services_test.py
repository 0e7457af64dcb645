"""Users and judges of a run: what its config says of them, and what they do."""

import json

import jax
import numpy as np
import pytest
from absl import flags
from ml_collections import config_flags

from agentrl.configs import base, grpo
from agentrl.learner import algorithm, update
from agentrl.rollout.engine.service import Model
from agentrl.run import build, runner, sampler, workdir
from agentrl.task.fixed import attempts as make_attempts
from agentrl.types import Status

TRUTHFUL = 'agentrl.env.interview:truthful'


def config(tmp_path, arg='tiny,env=interview', **user):
  c = grpo.get_config(arg)
  c.data = str(tmp_path / 'data')
  c.model.update(dict(width=16, layers=1, heads=2, kv_heads=2, head_dim=8,
                      mlp=32))  # fmt: skip
  c.rollout.update(dict(batch=4, group=2, slots=2, turns=2, message=6))
  c.env.update(dict(train=4, test=4))
  c.micro = c.sft.batch = 4
  c.host.update(dict(chunk=8, burst=4))
  if user:
    c.service.user.update(dict(function='', message=5, context=200, **user))
  return c


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
  assert 'own' in build.setup(c).world.family.columns


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


def unset(c):
  c.service.user.function = ''


def twice(c):
  c.service.user.role = 'policy'


def missing(c):
  del c.service['user']


def spare(c):
  base.service(c, 'critic', function=TRUTHFUL)


def process(c):
  c.host.place = 'process'


def model(**fields):
  return lambda c: c.service.user.update({'function': '', **fields})


def valued(c):
  base.role(c, 'critic', heads=1)
  model(role='critic')(c)


@pytest.mark.parametrize(
  ('change', 'match'),
  [
    (unset, r'service.user has 0 sources, {}; set exactly one of'),
    (twice, r'service.user has 2 sources'),
    (missing, r"asks the service 'user', and c.service has \(\)"),
    (spare, r'service.critic is asked by nobody'),
    (process, r"place 'process' and ask services \('user',\)"),
    (model(function='no:where'), r"service.user.function='no:where' names no"),
    (model(role='teacher'), r"role='teacher' is no language model of this run"),
    (valued, r"choose from \('policy',\)"),
    (model(role='policy', temperature=-1.0), r'temperature=-1.0 is too low'),
    (model(role='policy', message=0), r'service.user.message=0 is too low'),
    (model(role='policy', context=32), r'context=32 holds no question'),
  ],
)
def test_a_mistake_is_one_sentence(tmp_path, change, match):
  c = config(tmp_path)
  change(c)
  with pytest.raises(ValueError, match=match):
    build.setup(c)
  assert not (tmp_path / 'data').exists()  # nothing was begun


def test_services_are_for_host_environments(tmp_path):
  c = config(tmp_path, 'tiny,env=frozen_lake,judge')
  with pytest.raises(ValueError, match=r'service.judge answers host'):
    build.setup(c)


def test_a_run_of_another_model_is_refused(tmp_path):
  other = config(tmp_path)
  other.model.width = 32
  workdir.keep_config(other, str(tmp_path / 'other'))
  c = config(tmp_path, run=str(tmp_path / 'other'))
  s = build.setup(c)
  with pytest.raises(ValueError, match=r'service.user.run=.*model.width is 32'):
    sampler.players(s).__enter__()
  c.service.user.run = str(tmp_path / 'nowhere')
  with pytest.raises(ValueError, match='is not the folder of a run'):
    sampler.players(s).__enter__()


# What they do.


def collected(c):
  """A batch, and its metrics."""
  s = build.setup(c)
  state = update.init(s.learner, jax.random.key(0))
  attempts = make_attempts(np.arange(4) // 2, 2, 2, 1.0)
  policy = algorithm.whole(s.learner.context, state.params)
  with sampler.players(s) as playing:
    playing.lend(state.params)
    batch = playing.collect(policy, attempts, jax.random.key(1), 0)
    told = {k: float(v[0]) for k, v in playing.observe(batch).items()}
  return s, batch, told


@pytest.mark.slow
def test_what_a_model_says_is_context(tmp_path, monkeypatch):
  """Said by the policy itself, and yet not trained on."""
  said = []
  ask = Model.__call__

  def heard(self, *args, **fields):
    said.append(ask(self, *args, **fields))
    return said[-1]

  monkeypatch.setattr(Model, '__call__', heard)
  s, batch, told = collected(config(tmp_path, role='policy'))
  rows = batch.rows
  sampled = np.asarray(rows.sampled)
  assert not np.asarray(rows.weight)[~sampled].any()
  assert not np.asarray(rows.logp)[~sampled].any()
  assert sampled.sum() == float(np.sum(batch.turns.terms['tokens']))
  assert len(said) == told['rollout/service/user/calls'] >= 4
  second = []
  for b in range(4):
    inside = ~sampled[b] & (np.asarray(rows.turn[b]) == 0)
    second.append(s.tokenizer.decode(np.asarray(rows.tokens[b])[inside]))
  for text in second:
    assert text in [x if x.endswith('\n') else f'{x}\n' for x in said]


@pytest.mark.slow
def test_a_judge_that_fails_is_no_zero(tmp_path):
  """Its trajectories count as faults and carry no weight."""
  c = config(tmp_path, 'tiny,env=interview,judge')
  c.service.user.function = f'{__name__}:broken'
  c.service.judge.function = f'{__name__}:numbered'
  _, batch, told = collected(c)
  assert (np.asarray(batch.status) == Status.ENV_ERROR).all()
  assert not np.asarray(batch.turns.scored).any()
  assert not np.asarray(batch.rows.weight).any()
  assert told['rollout/service/user/failed'] == 4
  assert told['rollout/fault/raise'] == 4


@pytest.mark.slow
@pytest.mark.parametrize('source', ['function', 'reference', 'run'])
def test_a_run_with_a_user(tmp_path, source, compiled_once):
  """Warm start, a step of RL, evaluation; then another run as the user."""
  c = config(tmp_path)
  c.steps, c.sft.steps, c.eval.episodes = 1, 1, 4
  c.rollout.update(dict(message=24, turns=5))
  c.micro = 4
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
