"""Runs whose workdir is in an emulated bucket: killed, resumed, looked at."""

import os
import signal
import subprocess
import sys
import time

import pytest

from agentrl.log import metrics
from agentrl.runtime import storage
from tests.bucket import bucket  # noqa: F401
from tests.integration.same import assert_same_run

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
  assert_same_run(local, there, steps=10)
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
