"""Jobs through submitit, on its executor for this machine."""

import sys

import pytest

from agentrl.lab.sweep import local, slurm
from agentrl.runtime import install
from tests import errors


def test_options():
  assert slurm.options('slurm_partition=gpu,timeout_min=90') == {
    'slurm_partition': 'gpu',
    'timeout_min': 90,
  }
  assert slurm.options('') == {}
  with errors.raises(ValueError, 'gpu NAME VALUE'):
    slurm.options('gpu')


def test_without_submitit_it_says_what_to_install(tmp_path, monkeypatch):
  monkeypatch.setitem(sys.modules, 'submitit', None)
  with pytest.raises(ValueError, match=r'\[cluster\]'):
    slurm.run([], 'slurm', str(tmp_path), {}, lambda *_: None)


def test_jobs_run_and_failures_are_told(tmp_path, monkeypatch):
  pytest.importorskip('submitit', reason=install.command('cluster'))
  monkeypatch.delenv('COLOUR', raising=False)
  jobs = [
    local.Job(
      name,
      (sys.executable, '-c', code),
      str(tmp_path / name / 'log'),
      {'COLOUR': 'red'},
    )
    for name, code in (
      ('good', 'import os; print(os.environ["COLOUR"])'),
      ('bad', 'raise SystemExit(3)'),
    )
  ]
  seen = []
  done = slurm.run(
    jobs,
    'local',
    str(tmp_path / 'submitit'),
    {'timeout_min': 2},
    lambda running, done: seen.append(len(done)),
    every=0.2,
  )
  assert done == {'good': 0, 'bad': 1}
  assert (tmp_path / 'good' / 'log').read_text() == 'red\n'
  assert seen[-1] == 2
