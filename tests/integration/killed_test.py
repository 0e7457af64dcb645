"""A comparison of training runs, killed and repeated, ends with its report."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from tests.integration.timeless import report

STUDY = """
from agentrl.lab.study.spec import Arm, Claim, Env, Study

CONFIG = 'configs/{}.py:tiny,env=frozen_lake'

def get_study():
  changes = {
    'data': DATA, 'steps': 4, 'micro_batch': 24, 'sft.steps': 20,
    'sft.batch': 8,
    'model.width': 16, 'model.layers': 1, 'rollout.batch': 8,
    'rollout.slots': 8, 'rollout.max_turns': 3, 'env.train': 32, 'env.test': 16,
    'eval.episodes': 32, 'eval.every': 2, 'role.policy.final_lr_fraction': 1.0,
  }
  return Study(
    name='small', title='Small', question='Which?', by='train',
    arms=(Arm('grpo', 'GRPO', CONFIG.format('grpo')),
          Arm('rloo', 'RLOO', CONFIG.format('rloo'))),
    envs={'lake': Env('a lake', {})},
    claims=(Claim('better', 'rloo', 'grpo', 'area', 0.1),),
    env_steps=60, tokens=120, threshold='grpo', reference='grpo',
    warm=CONFIG.format('grpo'), changes=changes,
    grid=(1e-3, 2e-3), rate=1e-3, pairs=5, tuning=1, widen=0,
  )
"""


def command(tmp_path, name):
  path = tmp_path / 'study.py'
  path.write_text(STUDY.replace('DATA', repr(str(tmp_path / 'data'))))
  words = ['-m', 'experiments.compare', f'--study={path}', '--jobs=2']
  return [sys.executable, *words, f'--workdir={tmp_path / name}']


def finished(folder) -> int:
  return len(list(folder.rglob('summary.txt')))


@pytest.mark.nightly
def test_killed_at_random_moments(tmp_path):
  """Once while it tunes, twice among the pairs; some seconds after a run."""
  environ = os.environ | {
    'JAX_COMPILATION_CACHE_DIR': str(tmp_path / 'cache'),
    'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0.3',
  }
  whole, cut = tmp_path / 'whole', tmp_path / 'cut'
  subprocess.run(command(tmp_path, 'whole'), check=True, env=environ)
  r = random.Random(0)
  for runs in (2, 12, 17):
    child = subprocess.Popen(command(tmp_path, 'cut'), env=environ)
    while child.poll() is None and finished(cut) < runs:
      time.sleep(0.1)
    time.sleep(r.uniform(0, 6))
    assert child.poll() is None
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert not (cut / 'report.html').exists()
  subprocess.run(command(tmp_path, 'cut'), check=True, env=environ)
  assert finished(cut) == finished(whole) > 17
  assert report(cut) == report(whole)
  assert (cut / 'report.html').exists()
