"""Teachers: roles that are the newest policies of other runs."""

import json
import shutil

import jax
import numpy as np
import pytest
from ml_collections import ConfigDict

from agentrl.configs import base, gkd, opd, tt_opd
from agentrl.run import build, runner, weights, workdir
from agentrl.run.check import validate
from tests import errors
from tests.integration.cut import after_row


def config(folder, method=opd, **changes):
  c = method.get_config('tiny,env=frozen_lake')
  c.data = str(folder / 'data')
  c.model.update(
    dict(width=16, layers=1, heads=2, kv_heads=2, head_dim=8, mlp=32)
  )
  c.rollout.update(dict(batch=8, group_size=4, slots=8, max_turns=2))
  c.env.update(dict(train=8, test=2))
  c.micro_batch = c.sft.batch = 8
  c.sft.steps, c.steps, c.eval.episodes = 2, 2, 4
  c.checkpoint.every = 1
  c.role.teacher.run = str(folder / 'teacher')
  c.update_from_flattened_dict(changes)
  return c


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  """A run of two supervised steps, of another seed."""
  folder = tmp_path_factory.mktemp('runs')
  runner.run(teacher_of(folder, seed=7), str(folder / 'teacher'))
  return folder


def teacher_of(folder, seed):
  return config(folder, **{'seed': seed, 'steps': 0, 'role.teacher.run': ''})


def state_of(c, where):
  return weights.load(c, build.experiment(c).shape, where)[1]


def assert_equal(one, other, want=True):
  pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
  assert all(np.array_equal(a, b) for a, b in pairs) == want


def resumed(c, tmp_path, meanwhile=lambda: None):
  """The state of a whole run, which is that of one that was killed."""
  whole, cut = str(tmp_path / 'whole'), str(tmp_path / 'cut')
  runner.run(c, whole)
  with after_row(3):  # between its checkpoints
    runner.run(c, cut)
  meanwhile()
  runner.run(c, cut)
  state = state_of(c, whole)
  assert_equal(state.params, state_of(c, cut).params)
  return state


@pytest.mark.nightly
def test_it_is_that_policy_and_stays_so(folder, tmp_path):
  c = config(folder)
  runner.run(c, str(tmp_path / 'run'))
  state = state_of(c, str(tmp_path / 'run'))
  teacher = weights.policy(build.experiment(c).shape, c.role.teacher.run)
  assert_equal(state.params['teacher'], teacher)
  assert_equal(state.params['policy'], teacher, want=False)
  assert 'teacher' not in state.opt


@pytest.mark.nightly
def test_a_resumed_run_has_the_teacher_it_began_with(folder, tmp_path):
  """Bit for bit, though the other run has gone on meanwhile."""
  run = tmp_path / 'teacher'
  shutil.copytree(folder / 'teacher', run)

  def meanwhile():
    shutil.rmtree(run)
    runner.run(teacher_of(folder, seed=8), str(run))

  c = config(folder, **{'role.teacher.run': str(run)})
  resumed(c, tmp_path, meanwhile)


@pytest.mark.nightly
def test_a_resumed_run_has_the_moving_average_it_had(folder, tmp_path):
  """Of the policy's past, bit for bit; it is neither of the two ends."""
  c = config(folder, gkd)
  c.role.teacher.update(dict(kind='ema', run=''))
  c.signal = ('moving_average',)
  # From itself alone there is nothing to learn.
  c.loss = ('distillation', 'entropy')
  c.hp.signal = ConfigDict(
    {'moving_average': {'role': 'teacher', 'decay': 0.5}}
  )
  base.fill(c)
  state = resumed(c, tmp_path)
  assert_equal(state.params['teacher'], state.params['policy'], want=False)


@pytest.mark.nightly
def test_a_resumed_run_has_the_teacher_with_hints_it_had(folder, tmp_path):
  """Bit for bit: an average that reads how trajectories ended."""
  c = tt_opd.get_config('tiny,env=frozen_lake')
  small = config(folder)
  for section in ('model', 'rollout', 'env', 'sft', 'eval', 'checkpoint'):
    c[section] = small[section]
  c.data, c.steps, c.micro_batch = small.data, small.steps, small.micro_batch
  c.hp.signal.moving_average.update(dict(decay=0.5, every=1))
  state = resumed(c, tmp_path)
  assert_equal(state.params['teacher'], state.params['policy'], want=False)
  assert set(state.opt) == {'policy'}


@pytest.mark.nightly
@pytest.mark.parametrize('micro', [4, 8])
def test_a_batch_that_a_memory_made_larger(folder, tmp_path, micro):
  """The teacher reads rows that were appended, too."""
  c = config(folder, gkd)
  c.memory, c.micro_batch = ('replay',), micro
  c.hp.memory = ConfigDict({'replay': {'n': 8, 'capacity': 8}})
  base.fill(c)
  runner.run(c, str(tmp_path / 'run'))
  lines = (tmp_path / 'run' / 'metrics.jsonl').read_text().splitlines()
  values = [json.loads(x) for x in lines]
  name = 'distillation/divergence'
  seen = [x[name] for x in values if name in x]
  assert len(seen) >= 2
  assert all(0 < x < 10 for x in seen)


@pytest.mark.parametrize('method', [opd, gkd])
def test_another_model_or_no_run_is_refused_before_anything_is_made(
  tmp_path, method
):
  where = str(tmp_path / 'run')
  with pytest.raises(ValueError):
    runner.run(config(tmp_path, method), where)
  workdir.keep_config(teacher_of(tmp_path, 7), str(tmp_path / 'teacher'))
  with errors.raises(ValueError, 'role.teacher.run model.width 16 32'):
    runner.run(config(tmp_path, method, **{'model.width': 32}), where)
  assert not (tmp_path / 'run').exists()


def test_a_teacher_of_another_vocabulary_is_refused(tmp_path):
  """The words are those of the checkpoint that a model began from."""
  workdir.keep_config(teacher_of(tmp_path, 7), str(tmp_path / 'teacher'))
  c = config(tmp_path, gkd, **{'model.path': 'another/model'})
  with errors.raises(ValueError, 'role.teacher.run model.path'):
    workdir.same_model(c, 'role.teacher.run')


def test_what_a_distillation_cannot_be_is_refused(tmp_path):
  changes = {'role.teacher.run': '', 'role.teacher.heads': 1}
  with errors.raises(ValueError, 'heads 1'):
    validate.config(config(tmp_path, gkd, **changes))
  with errors.raises(ValueError, 'heads 0'):
    validate.config(config(tmp_path, **{'role.teacher.heads': 1}))
  c = config(tmp_path, gkd)
  c.schedule.hp = ConfigDict(
    {'distillation': {'distillation': {'beta': ('linear', 0.1, 0.9, 0)}}}
  )
  with pytest.raises(ValueError):
    validate.config(c)
