"""Comparisons of tables: what is asked for is run once, and kept."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from agentrl.lab.study import tabular_runner
from agentrl.lab.study.execute import RunRequest
from agentrl.lab.study.spec import Arm, Env
from agentrl.lab.tabular import train
from tests.integration.timeless import report
from tests.lab.study import made_up_study

STUDY = """
from agentrl.lab.study.spec import Arm, Claim, Env, Study

def get_study():
  world = {'world': 'bifurcation', 'iterations': 4, 'settings': {'length': 2}}
  return Study(
    name='small', title='Small', question='Which?', by='tabular',
    arms=(Arm('grpo', 'GRPO', 'configs/grpo.py'),
          Arm('rloo', 'RLOO', 'configs/rloo.py')),
    envs={'two': Env('two turns', world)},
    claims=(Claim('better', 'rloo', 'grpo', 'area', 0.1),),
    env_steps=250, tokens=250, threshold='grpo', reference='grpo',
    grid=(0.1, 0.3), rate=0.2, pairs=5, tuning=2, widen=1,
  )
"""


def study(**changes):
  fields = {
    'by': 'tabular',
    'arms': (
      Arm('a', 'A', 'configs/grpo.py'),
      Arm(
        'b',
        'B',
        'configs/oprl.py',
        salt=2,
        rates={'role.policy.lr': 1.0, 'role.prm.lr': 0.5},
      ),
    ),
    'envs': {'one': Env('one', {'world': 'bifurcation', 'iterations': 7})},
    'grid': (0.1, 0.2),
    'rate': 0.1,
  }
  return made_up_study.make_study(**{**fields, **changes})


def test_an_arm_is_one_program_and_what_it_told_is_kept(tmp_path, monkeypatch):
  calls = []

  def curves(config, rates, seeds, salt, world, iterations):
    ratio = config.role['prm'].lr / config.role['policy'].lr if salt else None
    calls.append((rates, seeds, salt, ratio, world, iterations))
    shape = len(rates), len(seeds), iterations + 1
    at = np.add.outer(100 * np.array(rates), seeds)  # who is who
    return {
      'env_steps': np.broadcast_to(np.arange(shape[-1]), shape),
      'success': np.broadcast_to(at[..., None], shape),
      'told': {'seen': at},
    }

  monkeypatch.setattr(train, 'curves', curves)
  asks = [
    RunRequest('one', x, rate, seed)
    for seed in (3, 1)
    for x in 'ab'
    for rate in (0.2, 0.1)
  ]
  run = tabular_runner.runner(study(), str(tmp_path))
  found = run(asks)
  both = [0.1, 0.2], [1, 3]
  assert calls == [
    (*both, 0, None, 'bifurcation', 7),
    (*both, 2, 0.5, 'bifurcation', 7),
  ]
  for a in asks:
    assert found[a].success[0] == pytest.approx(100 * a.rate + a.seed)
    assert found[a].metrics['seen'] == found[a].success[0]
  again = tabular_runner.runner(study(), str(tmp_path))(asks[:4] + asks[4:])
  assert len(calls) == 2
  np.testing.assert_array_equal(again[asks[3]].success, found[asks[3]].success)
  run(
    [*asks, RunRequest('one', 'a', 0.1, 4)]
  )  # another seed: other luck in vmap
  assert len(calls) == 3
  run([RunRequest('one', 'a', 0.1, 1, tuning=True)])
  assert len(calls) == 4


def test_an_arm_that_tables_cannot_stand_for_is_told_before_any_run():
  arms = (Arm('a', 'A', 'configs/dapo.py'), Arm('b', 'B', 'configs/grpo.py'))
  with pytest.raises(ValueError):
    tabular_runner.check_all(study(arms=arms))


def compare(tmp_path, name, jobs):
  path = tmp_path / 'study.py'
  path.write_text(STUDY)
  command = [sys.executable, '-m', 'experiments.compare', f'--study={path}']
  return [*command, f'--workdir={tmp_path / name}', f'--jobs={jobs}']


@pytest.mark.nightly
def test_a_comparison_killed_at_any_time_ends_with_the_same_report(tmp_path):
  """In one process as in two."""
  subprocess.run(compare(tmp_path, 'whole', 1), check=True)
  for files in (1, 3):
    child = subprocess.Popen(compare(tmp_path, 'cut', 2))
    while child.poll() is None:
      kept = list((tmp_path / 'cut').rglob('[0-9]*.json'))
      if len(kept) >= files:
        os.kill(child.pid, signal.SIGKILL)
        break
      time.sleep(0.05)
    child.wait()
    assert not (tmp_path / 'cut' / 'report.html').exists()
  done = subprocess.run(
    compare(tmp_path, 'cut', 2), check=True, capture_output=True, text=True
  )
  assert report(tmp_path / 'cut') == report(tmp_path / 'whole')
  assert (tmp_path / 'cut' / 'report.html').exists()
  assert 'RLOO' in done.stdout
