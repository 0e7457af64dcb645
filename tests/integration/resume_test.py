"""A run that is killed and started again is the run that was never killed."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from agentrl.configs import archer_replay, grpo, rorecomp, spear
from agentrl.run import build, runner, weights
from tests.integration.cut import after_row
from tests.integration.same import assert_same_run, pairs, rows

SMALL = {
  'steps': 8,
  'micro_batch': 24,
  'model.width': 16,
  'model.layers': 1,
  'rollout.batch': 8,
  'rollout.slots': 8,
  'rollout.max_turns': 3,
  'sft.steps': 4,
  'sft.batch': 8,
  'env.train': 16,
  'env.test': 4,
  'eval.episodes': 8,
  'checkpoint.every': 3,
}


@pytest.mark.slow
@pytest.mark.parametrize(
  ('method', 'arg'),
  [
    (grpo, 'tiny'),
    # A memory that adds to batches, one that holds what was put off, one with
    # priorities, chosen tasks.
    pytest.param(spear, 'tiny', marks=pytest.mark.nightly),
    pytest.param(rorecomp, 'tiny', marks=pytest.mark.nightly),
    pytest.param(archer_replay, 'tiny', marks=pytest.mark.nightly),
    pytest.param(grpo, 'tiny,tasks=difficulty_band', marks=pytest.mark.nightly),
  ],
)
def test_stopped_between_checkpoints(method, arg, tmp_path):
  """Stopped once a row beyond the last checkpoint has been written."""
  c = method.get_config(arg)
  c.update_from_flattened_dict(SMALL)
  c.update(dict(data=str(tmp_path / 'data'), steps=4))
  c.sft.steps, c.checkpoint.every = 0, 2
  c.loss = (*c.loss, 'entropy')  # moves it even if nothing is solved
  c.curate, c.hp.curate = (), {}  # for which all groups are alike then
  whole, cut = str(tmp_path / 'whole'), str(tmp_path / 'cut')
  runner.run(c, whole)
  with after_row(3):
    runner.run(c, cut)
  assert rows(cut)[-1]['step'] == 3
  runner.run(c, cut)
  assert_same_run(whole, cut, steps=4)


@pytest.mark.nightly
def test_goes_on_on_another_mesh(tmp_path):
  """Two steps on one device and two on eight are four on one."""
  c = grpo.get_config('tiny')
  c.update_from_flattened_dict(SMALL)
  c.update(dict(data=str(tmp_path / 'data'), steps=4))
  c.sft.steps, c.checkpoint.every = 0, 2
  c.loss = (*c.loss, 'entropy')
  c.role.policy.eps = 1.0  # a small one makes Adam blow up rounding
  whole, cut = str(tmp_path / 'whole'), str(tmp_path / 'cut')
  runner.run(c, whole)
  shutil.copytree(whole, cut)
  shutil.rmtree(os.path.join(cut, 'checkpoints', '4'))
  c.mesh.update(dict(fsdp=2, sequence=2, tensor=2))
  runner.run(c, cut)
  s = build.experiment(c)
  states = [weights.load(c, s.shape, w) for w in (whole, cut)]
  assert [step for step, _ in states] == [4, 4]
  for a, b in pairs(*(state.params for _, state in states)):
    np.testing.assert_allclose(a, b, atol=1e-5)


def command(workdir, data):
  values = SMALL | {'data': data}
  flags = [f'--config.{name}={value}' for name, value in values.items()]
  return [
    sys.executable,
    '-m',
    'experiments.train',
    '--config=configs/oprl.py:tiny',
    f'--workdir={workdir}',
    *flags,
    "--config.loss=('ppo','entropy')",
  ]


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path):
  whole, cut, data = (str(tmp_path / n) for n in ('whole', 'cut', 'data'))
  env = {k: v for k, v in os.environ.items() if k != 'XLA_FLAGS'}
  start = time.monotonic()
  subprocess.run(command(whole, data), check=True, env=env)
  length = time.monotonic() - start
  luck = random.Random(0)
  for _ in range(3):
    run = subprocess.Popen(command(cut, data), env=env)
    try:
      run.wait(luck.uniform(0.3, 0.95) * length)
    except subprocess.TimeoutExpired:
      run.send_signal(signal.SIGKILL)
      run.wait()
  subprocess.run(command(cut, data), check=True, env=env)
  assert_same_run(whole, cut, steps=12)
