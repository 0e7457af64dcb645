"""Runs whose workdir is in an emulated bucket: killed, resumed, looked at."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from agentrl.log import metrics, trajectories
from agentrl.run import build, pretrained, weights, workdir
from agentrl.runtime import storage
from tests.bucket import bucket  # noqa: F401

SMALL = (
  '--config=grpo:tiny',
  '--config.steps=8',
  '--config.sft.steps=2',
  '--config.checkpoint.every=2',
  '--config.eval.every=4',
  '--config.eval.episodes=32',
  '--config.log.groups=2',
)


def command(name: str, run: str, *words: str) -> list[str]:
  return [
    sys.executable,
    '-m',
    f'experiments.{name}',
    f'--workdir={run}',
    *words,
  ]


def done(run: str) -> int:
  """The last step of the rows in the bucket."""
  try:
    rows = metrics.read(storage.path(run) / metrics.FILE)
  except FileNotFoundError:  # or it is being kept under another name
    rows = []
  return rows[-1]['step'] if rows else 0


def rows(run: str) -> list[dict]:
  read = metrics.read(storage.path(run) / metrics.FILE)
  return [{k: v for k, v in r.items() if k != 'time/seconds'} for r in read]


def state(run: str):
  c = workdir.read_config(run)
  shape = (
    build.experiment(c).shape if not c.model.path else pretrained.language(c)
  )
  return weights.load(c, shape, run)


@pytest.mark.nightly
def test_a_run_in_a_bucket_killed_three_times_ends_as_the_local_one(
  tmp_path,
  bucket,  # noqa: F811
):
  environ = os.environ | {
    'JAX_COMPILATION_CACHE_DIR': str(tmp_path / 'cache'),
    'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0.3',
  }
  words = (*SMALL, f'--config.data={tmp_path / "data"}')
  local, there = str(tmp_path / 'local'), f'{bucket}/run'
  subprocess.run(command('train', local, *words), check=True, env=environ)
  for step in (2, 4, 6):
    child = subprocess.Popen(command('train', there, *words), env=environ)
    while child.poll() is None and done(there) < step:
      time.sleep(0.1)
    assert child.poll() is None
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert not (storage.path(there) / 'summary.txt').exists()
  subprocess.run(command('train', there, *words), check=True, env=environ)
  np.testing.assert_equal(rows(there), rows(local))
  logs = [trajectories.Log(run) for run in (local, there)]
  assert list(logs[0]) == list(logs[1])
  assert len(logs[0]) > 0
  (step, one), (same, other) = state(local), state(there)
  assert step == same == 10
  import jax

  for x, y in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
    if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
      x, y = jax.random.key_data(x), jax.random.key_data(y)
    assert np.asarray(x).tobytes() == np.asarray(y).tobytes()
  names = storage.files(storage.path(there))
  assert {'config.json', 'header.json', 'summary.txt', 'curve.png'} <= {*names}
  ran = subprocess.run(
    command('eval', there, '--episodes=8'),
    check=True,
    env=environ,
    capture_output=True,
    text=True,
  )
  assert 'success' in ran.stdout
  out = tmp_path / 'view.html'
  subprocess.run(
    [sys.executable, '-m', 'experiments.view', there, f'--out={out}'],
    check=True,
    env=environ,
  )
  assert out.stat().st_size > 10_000
