"""Every mistake is one clear sentence, before anything is compiled."""

import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest

from agentrl import cli, hooks
from agentrl.configs import base, grpo, oprl
from agentrl.learner import update
from agentrl.model import microbatch
from agentrl.run import build, runner
from agentrl.run.play import jit_sampler
from agentrl.run.stage import stages
from tests import errors


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch):
  """A mistake must be found before a model is initialised or run."""

  def refuse(*args, **kwargs):
    raise AssertionError('too late: the run has begun')

  monkeypatch.setattr(update, 'init', refuse)
  monkeypatch.setattr(microbatch, 'forward', refuse)


def tiny(folder, change=lambda c: None, method=grpo):
  c = method.get_config('tiny')
  c.data = str(folder)
  c.env.update(dict(train=4, test=2))
  change(c)
  return c


def put(path, value):
  """c -> c with c.<path> = value."""

  def change(c):
    *before, last = path.split('.')
    for name in before:
      c = c[name]
    c[last] = value

  return change


def schedule_a_reward(c):
  c.reward = ('env', 'turn_cost')
  base.hp(c, 'reward', 'turn_cost', cost=0.1)
  rise = {'reward': {'turn_cost': {'cost': ('linear', 0.0, 1.0, 9)}}}
  put('schedule.hp', rise)(c)


LINEAR = ('linear', 0, 1, 9)


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    (put('env.name', 'go'), 'env.name go sokoban'),
    (put('rollout.max_message_tokens', 1), '2 max_message_tokens 1'),
    (put('mesh.data', 3), 'rollout.batch 64 3 data 66'),
    (put('micro_batch', 2**31 - 1), '384'),  # at once
    (put('micro_batch', 36), '384 micro_batch 36 32'),
    (put('schedule.coef', {'stp': LINEAR}), 'schedule.coef.stp'),
    (
      put('schedule.hp', {'ppo': {'ppo': {'clp': LINEAR}}}),
      'c.schedule.hp.ppo.ppo.clp',
    ),
    (schedule_a_reward, 'schedule.hp.reward.turn_cost.cost'),
    (
      put('schedule.coef', {'episode': ('linear', 0, 1)}),
      'schedule.coef.episode',
    ),
    (
      put('schedule.coef', {'episode': ('liner', 0, 1, 9)}),
      'schedule.coef.episode shape liner linear',
    ),
    (
      put('schedule.coef', {'episode': ('linear', 0, float('nan'), 9)}),
      'schedule.coef.episode end nan',
    ),
    (
      put('schedule.hp', {'ppo': {'ppo': {'clip_low': ('linear', 0.2, 0, 9)}}}),
      'schedule.hp.ppo.ppo.clip_low end 0',
    ),
    (
      put(
        'schedule.hp',
        {'minibatch': {'minibatches': {'n': ('linear', 1, 2, 9)}}},
      ),
      'schedule.hp.minibatch.minibatches.n',
    ),
    (
      put('schedule', {'role': {'policy': {'lr': ('linear', -1, 0, 9)}}}),
      'schedule.role.policy.lr start -1 0',
    ),
    (
      put('role.policy.momentum', 0.9),
      'role.policy.momentum 0.9 role.policy b1 b2',
    ),
    (put('colour', 'red'), 'colour red'),
    (lambda c: c.__delattr__('log'), 'log None'),
    (
      lambda c: c.rollout.__delattr__('action_prefix'),
      'rollout.action_prefix',
    ),
    (put('role.policy.kind', 'frozen'), 'c.role.policy kind'),
    (put('init', 'no/such/run'), 'no/such/run run'),
  ],
)
def test_config(tmp_path, change, message):
  with errors.raises(ValueError, message) as caught:
    runner.run(tiny(tmp_path / 'data', change), str(tmp_path / 'run'))
  assert '\n' not in str(caught.value)
  assert not os.path.exists(tmp_path / 'run')  # the corrected command works


@pytest.mark.parametrize(
  ('rows', 'message'),
  [
    (None, 'levels.txt'),
    (['hello world'], 'levels.txt 0 2'),
    (['######', '#  $.#', '######'], '0'),
    (['######', '#@$$.#', '######'], '0'),
    (['######', '#@ $.#', '#    #', '######'], 'levels.txt'),  # too few
  ],
)
def test_levels(tmp_path, rows, message):
  path = tmp_path / 'levels.txt'
  if rows:
    path.write_text('\n'.join(['; 0', *rows, '']))
  c = tiny(tmp_path / 'data', put('env.levels', str(path)))
  with errors.raises(ValueError, message):
    build.experiment(c)


def test_short_positions_before_levels_are_built(tmp_path):
  c = tiny(tmp_path / 'data', put('model.positions', 9))
  with errors.raises(ValueError, 'positions 9'):
    build.experiment(c)
  assert not os.path.exists(tmp_path / 'data')


def test_a_term_that_the_levels_do_not_tell(tmp_path):
  c = tiny(tmp_path / 'data', put('env.boxes', 2))
  c.stream.episode = ('add_term',)
  base.hp(c, 'episode', 'add_term', name='progress')
  with errors.raises(ValueError, 'term:progress'):
    build.experiment(c)


def test_a_run_without_finite_gradients_ends_in_a_sentence(capsys):
  def fails():
    raise hooks.NotFiniteError('no finite gradient; lower role.policy.lr')

  with errors.raises(SystemExit, '2'):
    cli._guarded(fails, ['train'], ())
  assert capsys.readouterr().err.startswith('error: no finite gradient')


def test_workdir_of_another_config(tmp_path):
  theirs = tiny(tmp_path / 'data', put('model.width', 32))
  runner.workdir_lib.keep_config(theirs, str(tmp_path))
  message = 'model.width 32 64 --workdir'
  with errors.raises(ValueError, message):
    runner.run(tiny(tmp_path / 'data'), str(tmp_path))


def test_init_of_another_model(tmp_path):
  theirs = tiny(tmp_path / 'data', put('model.layers', 1), method=oprl)
  runner.workdir_lib.keep_config(theirs, str(tmp_path / 'theirs'))
  c = tiny(tmp_path / 'data', put('init', str(tmp_path / 'theirs')))
  with errors.raises(ValueError, 'model.layers 1 2'):
    runner.run(c, str(tmp_path / 'run'))
  assert not os.path.exists(tmp_path / 'run')


def test_nothing_to_do(tmp_path):
  c = tiny(tmp_path / 'data', put('steps', 0))
  c.sft.steps = 0
  with errors.raises(ValueError, 'steps 0'):
    runner.run(c, str(tmp_path / 'run'))


def test_without_demonstrations_the_warm_start_is_left_out(tmp_path):
  s = build.experiment(tiny(tmp_path / 'data'))
  unknown = dataclasses.replace(s.train, actions=np.full((4, 6), -1))
  s = s._replace(train=unknown)
  names = 'sft', 'rl'
  built = dict.fromkeys(names, (s, jit_sampler.JitSampler(s)))
  (stage,) = stages.make_stages(s, names, built)
  assert (stage.name, stage.start, stage.end) == ('rl', 0, s.config.steps)
  with pytest.raises(ValueError, match='comes with a demonstration'):
    list(stages.make_stages(s, ('sft',), built))


def test_damaged_config(tmp_path):
  (tmp_path / 'config.json').write_text('{"steps": ')
  with errors.raises(ValueError, 'config.json'):
    runner.workdir_lib.read_config(str(tmp_path))


def test_config_argument():
  with errors.raises(ValueError, 'env chess'):
    base.get_config('tiny,env=chess')


def command(main, *flags):
  """(exit code, stderr) of a main, which must not reach the accelerator."""
  env = os.environ | {'JAX_PLATFORMS': 'none'}
  done = subprocess.run(
    [sys.executable, '-m', f'experiments.{main}', *flags],
    capture_output=True,
    text=True,
    env=env,
    timeout=120,
  )
  return done.returncode, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
  ('main', 'flags', 'message'),
  [
    (
      'train',
      ('--config=configs/grpo.py', '--config.nope=1', '--workdir=w'),
      '--config.nope is not a field of this config; config has advantage,',
    ),
    ('eval', ('--workdir=no/such/run',), 'is not the folder of a run'),
    ('view', ('no/such/run',), 'no/such/run must be the --workdir'),
  ],
)
def test_command_line(main, flags, message):
  """What tests/cli_test.py holds for many, and what a main finds."""
  code, told = command(main, *flags)
  last = told.strip().splitlines()[-1]
  assert code == 2
  assert last.startswith('error: ')
  assert message in last
  assert 'Traceback' not in told
