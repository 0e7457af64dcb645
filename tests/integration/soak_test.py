"""Ten runs, each killed five times and more, end as they would have.

Beside SIGKILL at every special moment: SIGSTOP and SIGCONT, a clock that
jumps, the dataset folder deleted between a kill and the next start. One run
is of a host world, one has LoRA, one a memory.

  pytest -m slow -n 2 --dist load tests/integration/soak_test.py
  pytest -m slow -n 0 -k quick tests/integration/soak_test.py
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.integration import same
from tests.integration.resume_test import SMALL

ROOT = pathlib.Path(__file__).parents[2]
STEPS = 12
TINY = [f'--config.{k}={v}' for k, v in (SMALL | {'eval.every': 4}).items()]
MOVED = ("--config.loss=('ppo','entropy')",)  # also where nothing is solved
RUNS = {
  'grpo': ('configs/grpo.py:tiny', *TINY, *MOVED),
  'oprl': ('configs/oprl.py:tiny', *TINY, *MOVED),
  'spear': ('configs/spear.py:tiny', *TINY),
  'lora': ('configs/grpo.py:tiny', *TINY, *MOVED, '--config.lora.rank=2'),
  'ppo_turn': ('configs/ppo_turn.py:tiny', *TINY),
  'gigpo': ('configs/gigpo.py:tiny', *TINY, *MOVED),
  'rloo': ('configs/rloo.py:tiny', *TINY, *MOVED),
  'lake': ('configs/grpo.py:tiny,env=frozen_lake', *TINY, *MOVED),
  'ppo': ('configs/ppo.py:tiny', *TINY),
  # One conversation at a time: which of them share slots depends on time, and
  # with it the last bit of a log-prob, so that a token in 10,000 is another.
  'host': (
    'configs/grpo.py:tiny,env=sql_questions',
    '--config.host.num_envs=1',
    '--config.sft.steps=4',
    '--config.steps=8',
    '--config.sft.batch=4',
    '--config.micro_batch=4',
    '--config.rollout.batch=8',
    '--config.rollout.slots=8',
    '--config.eval.episodes=8',
    '--config.checkpoint.every=3',
    '--config.env.train=20',
    '--config.env.test=8',
    '--config.eval.every=4',
  ),
}
# Each in the order of the run, so that none is past when it is waited for.
KILLS = (
  (
    ('locked', 1),
    ('row', 2),
    ('stage border', 1),
    ('half a row', 2),
    ('evaluation', 1),
  ),
  (
    ('random', 1),
    ('half a trajectory', 2),
    ('stage border', 1),
    ('saving', 1),
    ('saved, not sealed', 1),
  ),
  (
    ('resumed', 1),
    ('half a row', 3),
    ('sealed', 1),
    ('random', 2),
    ('sealed', 1),
    ('evaluation', 1),
  ),
  (
    ('saving', 1),
    ('saved, not sealed', 1),
    ('sealed', 1),
    ('row', 1),
    ('random', 1),
  ),
)


class Soak:
  """One run, and the same run undisturbed."""

  def __init__(self, tmp_path, cache, name: str):
    self._flags, self._data = RUNS[name], tmp_path / 'data'
    self.whole, self.cut = str(tmp_path / 'whole'), str(tmp_path / 'cut')
    self._environ = os.environ | {
      'XLA_FLAGS': '',
      'JAX_PLATFORMS': 'cpu',
      'JAX_COMPILATION_CACHE_DIR': str(cache),
      'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0',
    }

  def start(self, workdir, moment='', count=0, clock='') -> subprocess.Popen:
    config, *flags = self._flags
    return subprocess.Popen(
      [
        sys.executable,
        '-m',
        'tests.integration.soak_child',
        moment,
        str(count),
        clock,
        f'--config={config}',
        f'--workdir={workdir}',
        f'--config.data={self._data}',
        *flags,
      ],
      cwd=ROOT,
      env=self._environ,
      text=True,
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
    )

  def ends(self, process: subprocess.Popen, code: int) -> str:
    said = process.communicate(timeout=900)[0]
    assert process.returncode == code, said
    return said

  def kill(self, moment: str, count: int, clock: str = '') -> None:
    child = self.start(self.cut, moment, count, clock)
    said = self.ends(child, -signal.SIGKILL)
    assert 'Traceback' not in said, said

  def lose_the_data(self) -> None:
    shutil.rmtree(self._data)

  def stop_and_go_on(self) -> str:
    """SIGSTOP in the middle of it; a second training is told to wait."""
    child = self.start(self.cut, clock='jumps')
    path = pathlib.Path(self.cut, 'tensorboard')
    before = len(list(path.iterdir())) if path.exists() else 0
    while not path.exists() or len(list(path.iterdir())) == before:
      assert child.poll() is None, child.communicate()
      time.sleep(0.05)
    child.send_signal(signal.SIGSTOP)
    time.sleep(2)
    child.send_signal(signal.SIGCONT)
    return self.ends(child, 0)


@pytest.fixture(scope='module')
def cache(tmp_path_factory):
  """What the runs compile, shared by all of them."""
  return tmp_path_factory.mktemp('cache')


def soak(tmp_path, cache, name: str, kills) -> None:
  run = Soak(tmp_path, cache, name)
  run.ends(run.start(run.whole), 0)
  for i, (moment, count) in enumerate(kills):
    run.kill(moment, count, clock='jumps' if i % 2 else '')
    if i == 1:
      run.lose_the_data()
  said = run.stop_and_go_on()
  assert 'Resuming' in said, said
  near = dict(but=same.SLOTS, atol=1e-6) if name == 'host' else {}
  same.assert_same_run(run.whole, run.cut, steps=STEPS, **near)


@pytest.mark.nightly
@pytest.mark.parametrize('name', RUNS)
def test_killed_again_and_again(tmp_path, cache, name):
  i = list(RUNS).index(name)
  soak(tmp_path, cache, name, KILLS[i % len(KILLS)])


@pytest.mark.nightly
def test_quick_soak(tmp_path, cache):
  """Three kills of one run."""
  kills = (('half a row', 3), ('saved, not sealed', 1), ('evaluation', 1))
  soak(tmp_path, cache, 'grpo', kills)


def together(two: list[subprocess.Popen], lock: pathlib.Path) -> list[str]:
  """What each prints; who has the lock does not end before the other has."""
  while not (lock.exists() and lock.read_bytes().endswith(b'\n')):
    assert all(p.poll() is None for p in two)
    time.sleep(0.01)
  holder = json.loads(lock.read_bytes().splitlines()[0])['pid']
  first, second = sorted(two, key=lambda p: p.pid != holder)
  while second.poll() is None:  # it goes on slowly, and renews its lock
    first.send_signal(signal.SIGSTOP)
    time.sleep(1)
    first.send_signal(signal.SIGCONT)
    time.sleep(0.1)
  return [p.communicate(timeout=900)[0] for p in two]


@pytest.mark.nightly
def test_two_at_once_and_one_after_a_kill(tmp_path, cache):
  """Of two trainings in one workdir one trains; killed, another goes on."""
  run = Soak(tmp_path, cache, 'grpo')
  run.ends(run.start(run.whole), 0)
  two = [run.start(run.cut), run.start(run.cut)]
  said = together(two, pathlib.Path(run.cut) / 'lock.1')
  assert sorted(p.returncode for p in two) == [0, 2], said
  first, second = sorted(two, key=lambda p: p.returncode)
  refusal = said[two.index(second)].splitlines()[-1]
  assert refusal.startswith('error: ')
  assert f'is in use by process {first.pid} on ' in refusal
  same.assert_same_run(run.whole, run.cut, steps=STEPS)
  shutil.rmtree(run.cut)
  run.kill('row', 5)
  said = run.ends(run.start(run.cut), 0)
  assert 'which has ended' in said
  same.assert_same_run(run.whole, run.cut, steps=STEPS)
