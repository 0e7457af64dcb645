"""Every mistake is one clear sentence, before anything is compiled."""

import dataclasses
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from agentrl import cli, hooks
from agentrl.configs import base, cm2, grpo, oprl
from agentrl.learner import update
from agentrl.model import microbatch
from agentrl.run import build, runner
from agentrl.run.play import jit_sampler
from agentrl.run.stage import stages

ROOM = ['######', '#@ $.#', '#    #', '######']


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


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    (
      put('stream.episode', ('centre',)),
      r"stream\.episode names link 'centre'",
    ),
    (put('advantage', ('episode', 'stp')), r"c\.advantage names stream 'stp'"),
    (put('signal', ('implicit_prm',)), r'needs role:prm.*add the role'),
    (put('loss', ('pppo',)), r"c\.loss names loss 'pppo'"),
    (put('reward', ('enve',)), r"c\.reward names reward 'enve'"),
    (
      put('minibatch', 'minibatch'),
      r"c\.minibatch names minibatch 'minibatch'",
    ),
    (put('env.name', 'go'), r"env\.name='go'.*choose 'sokoban'"),
    (put('env.reward', 'dens'), r"env\.reward='dens'.*'dense', 'sparse'"),
    (
      put('rollout.history', 'fll'),
      r"history='fll'.*choose from 'turn', 'full'",
    ),
    (
      put('rollout.group_size', 5),
      r'rollout\.batch=64.*rollout\.group_size=5.*to 65',
    ),
    (
      put('rollout.max_message_tokens', 1),
      r'takes 2 tokens.*max_message_tokens=1.*set it to 2',
    ),
    (put('mesh.data', 3), r'rollout\.batch=64.*by 3.*data=3.*to 66'),
    (put('model.positions', 9), r'positions=9 and a row has \d+ tokens; raise'),
    (put('micro_batch', 2**31 - 1), r'makes 384 rows.*such as 384'),  # at once
    (put('micro_batch', 36), r'makes 384 rows.*micro_batch=36.*such as 32'),
    (
      put('schedule.coef', {'stp': ('linear', 0, 1, 9)}),
      r'schedule\.coef\.stp',
    ),
    (
      put('schedule.hp', {'ppo': {'ppo': {'clp': ('linear', 0, 1, 9)}}}),
      r'c\.schedule\.hp\.ppo\.ppo\.clp names no number',
    ),
    (schedule_a_reward, r'while trajectories are collected.*coef\.<stream>'),
    (put('schedule.coef', {'episode': ('linear', 0, 1)}), r'start, end, steps'),
    (
      put('schedule.coef', {'episode': ('liner', 0, 1, 9)}),
      r"schedule\.coef\.episode: shape='liner' is unknown .*; choose from"
      r" 'linear'",
    ),
    (
      put('schedule.coef', {'episode': ('linear', 0, float('nan'), 9)}),
      r'schedule\.coef\.episode: end=nan is not a number; set it to a number',
    ),
    (
      put('schedule.hp', {'ppo': {'ppo': {'clip_low': ('linear', 0.2, 0, 9)}}}),
      r'schedule\.hp\.ppo\.ppo\.clip_low: end=0 is too low.*more than 0',
    ),
    (
      put(
        'schedule.hp',
        {'minibatch': {'minibatches': {'n': ('linear', 1, 2, 9)}}},
      ),
      r'schedule\.hp\.minibatch\.minibatches\.n=.*a whole number.*leave it out',
    ),
    (
      put('schedule', {'role': {'policy': {'lr': ('linear', -1, 0, 9)}}}),
      r'schedule\.role\.policy\.lr: start=-1 is too low; set it to 0 or more',
    ),
    (
      put('hp.minibatch.minibatches.unit', 'nope'),
      r"hp\.minibatch\.minibatches\.unit='nope' is unknown; choose from 'row'",
    ),
    (
      put('stream.fresh', 'center'),
      r"fresh='center' is a text where a tuple belongs; write \('center',\)",
    ),
    (
      put('role.policy.momentum', 0.9),
      r'role\.policy\.momentum=0\.9 is no field.*role\.policy has b1, b2',
    ),
    (put('colour', 'red'), r"colour='red' is no field.*it has advantage, "),
    (lambda c: c.__delattr__('log'), r'log=None is no section of a config'),
    (
      lambda c: c.rollout.__delattr__('action_prefix'),
      r'rollout\.action_prefix is missing in this',
    ),
    (put('role.policy.kind', 'frozen'), r'c\.role\.policy must.*kind train'),
    (put('log.groups', -2), r'log\.groups=-2 is too low; set it to -1 or more'),
    (put('log.every', 0), r'log\.every=0 is too low; set it to 1 or more'),
    (put('init', 'no/such/run'), r'no/such/run is not the folder of a run'),
  ],
)
def test_config(tmp_path, change, message):
  with pytest.raises(ValueError, match=message) as caught:
    runner.run(tiny(tmp_path / 'data', change), str(tmp_path / 'run'))
  assert '\n' not in str(caught.value)
  assert not os.path.exists(tmp_path / 'run')  # the corrected command works


@pytest.mark.parametrize(
  ('rows', 'message'),
  [
    (None, r'levels\.txt.* does not exist'),
    (['hello world'], r'levels\.txt, level 0.*line 2'),
    (['######', '#  $.#', '######'], r'level 0.*player'),
    (['######', '#@$$.#', '######'], r'level 0.*boxes'),
  ],
)
def test_levels(tmp_path, rows, message):
  path = tmp_path / 'levels.txt'
  if rows:
    path.write_text('\n'.join(['; 0', *rows, '']))
  c = tiny(tmp_path / 'data', put('env.levels', str(path)))
  with pytest.raises(ValueError, match=message):
    build.experiment(c)


def test_short_positions_before_levels_are_built(tmp_path):
  c = tiny(tmp_path / 'data', put('model.positions', 9))
  with pytest.raises(ValueError, match='positions=9'):
    build.experiment(c)
  assert not os.path.exists(tmp_path / 'data')


def test_a_term_that_the_levels_do_not_tell(tmp_path):
  c = tiny(tmp_path / 'data', put('env.boxes', 2))
  c.stream.episode = ('add_term',)
  base.hp(c, 'episode', 'add_term', name='progress')
  with pytest.raises(ValueError, match=r'term:progress.*choose an environment'):
    build.experiment(c)


def test_a_run_without_finite_gradients_ends_in_a_sentence(capsys):
  def fails():
    raise hooks.NotFiniteError('no finite gradient; lower role.policy.lr')

  with pytest.raises(SystemExit, match='2'):
    cli._guarded(fails, ['train'], ())
  assert capsys.readouterr().err.startswith('error: no finite gradient')


def test_too_few_levels(tmp_path):
  path = tmp_path / 'levels.txt'
  path.write_text('\n'.join(['; 0', *ROOM, '']))
  c = tiny(tmp_path / 'data', put('env.levels', str(path)))
  with pytest.raises(ValueError, match=r'levels to train on and .* held out'):
    build.experiment(c)


def test_more_members_than_a_group_has(tmp_path):
  c = tiny(tmp_path / 'data', put('rollout.group_size', 4), method=cm2)
  message = r'require_members\.least=5 .*rollout\.group_size=4.*least to 3'
  with pytest.raises(ValueError, match=message):
    runner.run(c, str(tmp_path / 'run'))


def test_workdir_of_another_config(tmp_path):
  theirs = tiny(tmp_path / 'data', put('model.width', 32))
  runner.workdir_lib.keep_config(theirs, str(tmp_path))
  message = 'model.width is 32 there and 64 here; use a new --workdir'
  with pytest.raises(ValueError, match=message):
    runner.run(tiny(tmp_path / 'data'), str(tmp_path))


def test_init_of_another_model(tmp_path):
  theirs = tiny(tmp_path / 'data', put('model.layers', 1), method=oprl)
  runner.workdir_lib.keep_config(theirs, str(tmp_path / 'theirs'))
  c = tiny(tmp_path / 'data', put('init', str(tmp_path / 'theirs')))
  with pytest.raises(ValueError, match=r'model\.layers is 1 there and 2'):
    runner.run(c, str(tmp_path / 'run'))
  assert not os.path.exists(tmp_path / 'run')


def test_nothing_to_do(tmp_path):
  c = tiny(tmp_path / 'data', put('steps', 0))
  c.sft.steps = 0
  with pytest.raises(ValueError, match='nothing to do: steps=0'):
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
  with pytest.raises(ValueError, match=r'config\.json is damaged'):
    runner.workdir_lib.read_config(str(tmp_path))


def test_config_argument():
  with pytest.raises(ValueError, match="'env=chess' is unknown"):
    base.get_config('tiny,env=chess')


def test_saved_config_is_the_config(tmp_path):
  c = tiny(tmp_path / 'data', method=oprl)
  runner.workdir_lib.keep_config(c, str(tmp_path))
  runner.workdir_lib.same_config(c, str(tmp_path))
  again = runner.workdir_lib.read_config(str(tmp_path))
  assert base.wiring(again).stream == base.wiring(c).stream
  assert json.loads(again.to_json()) == json.loads(c.to_json())


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


@pytest.mark.parametrize(
  ('main', 'flags', 'message'),
  [
    (
      'train',
      ('--config=configs/grpo.py', '--config.nope=1', '--workdir=w'),
      '--config.nope is no field of this config; config has advantage,',
    ),
    ('eval', ('--workdir=no/such/run',), 'is not the folder of a run'),
    ('view', ('no/such/run',), "no/such/run has no folder 'trajectories'"),
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
