"""Learners and samplers that are killed: the run that never was, to the bit."""

import contextlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest

from tests.integration import same

pytestmark = pytest.mark.nightly
ROOT = pathlib.Path(__file__).parents[2]
BUT = (*same.CLOCK, 'samplers/')
SMALL = {
  'sft.steps': 0,
  'model.width': 16,
  'model.layers': 1,
  'rollout.batch': 8,
  'rollout.slots': 8,
  'rollout.max_turns': 3,
  'micro_batch': 24,
  'env.train': 16,
  'env.test': 4,
  'eval.episodes': 8,
  'eval.every': 10_000,
  'loss': "('ppo', 'entropy')",
  'curate': '()',
  'staleness.bound': 1,
  'staleness.anchor': 'behaviour',
}


class Processes:
  """Commands on one folder, each a group that can be killed."""

  def __init__(self, folder: pathlib.Path):
    self.folder, self.open = folder, list[subprocess.Popen]()

  def start(self, name: str, *words: str) -> subprocess.Popen:
    log = (self.folder / f'{name}.log').open('a')
    process = subprocess.Popen(
      [sys.executable, '-m', f'experiments.{name}', *words],
      cwd=ROOT,
      env=os.environ | {'PYTHONPATH': str(ROOT), 'JAX_PLATFORMS': 'cpu'},
      stdout=log,
      stderr=log,
      start_new_session=True,
    )
    self.open.append(process)
    return process

  def kill(self, process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
      os.killpg(process.pid, signal.SIGKILL)
    process.wait()

  def learner(self, run: str, **changes) -> subprocess.Popen:
    flags = {**SMALL, 'data': self.folder / 'data', **changes}
    return self.start(
      'train',
      '--config=configs/grpo.py:tiny',
      f'--workdir={self.folder / run}',
      *(f'--config.{name}={x}' for name, x in flags.items()),
    )

  def sampler(self) -> subprocess.Popen:
    return self.start('sampler', f'--workdir={self.folder / "many"}')

  def steps(self) -> list[int]:
    path = self.folder / 'many' / 'metrics.jsonl'
    if not path.exists():
      return []
    return [x['step'] for x in same.rows(path.parent) if x['phase'] == 'rl']

  def said(self, name: str) -> str:
    return (self.folder / f'{name}.log').read_text()[-2000:]


@pytest.fixture
def processes(tmp_path):
  made = Processes(tmp_path)
  yield made
  for process in made.open:
    made.kill(process)


def assert_undisturbed(processes, steps, **changes):
  """Each step once, and all numbers those of a run without samplers."""
  alone = processes.learner(
    'alone', steps=steps, **{'staleness.depth': 0}, **changes
  )
  assert alone.wait(timeout=1200) == 0, processes.said('train')
  assert processes.steps() == list(range(1, steps + 1))
  runs = [str(processes.folder / x) for x in ('alone', 'many')]
  same.assert_same_run(*runs, steps=steps, but=BUT)


def test_a_sampler_is_killed_every_ten_seconds(processes):
  """For two minutes and more."""
  steps, rng = 4000, random.Random(0)
  how = {'checkpoint.every': 10_000}
  run = processes.learner(
    'many', steps=steps, **{'staleness.jobs': True}, **how
  )
  crew, kills = [processes.sampler() for _ in range(2)], 0
  while run.poll() is None:
    with contextlib.suppress(subprocess.TimeoutExpired):
      run.wait(timeout=10)
      break
    i = rng.randrange(2)
    processes.kill(crew[i])
    crew[i], kills = processes.sampler(), kills + 1
  assert run.returncode == 0, processes.said('train')
  assert kills >= 10
  rows = [
    r for r in same.rows(processes.folder / 'many') if 'samplers/lost' in r
  ]
  assert sum(r['samplers/lost'] for r in rows) > 0
  assert max(r['rollout/age_max'] for r in rows) <= 1
  assert_undisturbed(processes, steps, **how)


def test_a_learner_is_killed_at_ten_moments(processes):
  """Its samplers stay, and go on with the one that is started next."""
  steps, rng = 300, random.Random(1)
  how = {'checkpoint.every': 7}
  for _ in range(2):
    processes.sampler()
  for kill in range(11):
    last = max(processes.steps(), default=0) + rng.randrange(3, 20)
    run = processes.learner(
      'many', steps=steps, **{'staleness.jobs': True}, **how
    )
    if kill == 10:
      break
    while max(processes.steps(), default=0) < last and run.poll() is None:
      time.sleep(0.05)
    time.sleep(0.3 * rng.random())
    assert run.poll() is None, processes.said('train')
    processes.kill(run)
  assert run.wait(timeout=1200) == 0, processes.said('train')
  assert_undisturbed(processes, steps, **how)
