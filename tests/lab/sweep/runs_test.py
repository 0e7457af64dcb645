"""Sweeps: which runs there are, and that each is run once, to its end."""

import json
import signal
import subprocess
import sys
import time

import pytest

from agentrl.configs import grpo
from agentrl.lab.sweep import grid, local
from agentrl.lab.sweep import runs as sweep_runs
from tests import errors


def test_a_mistake_in_one_run_is_told_before_any_starts(tmp_path):
  for changes, words in (
    ({'role.polcy.lr': 1.0}, ''),
    ({'steps': 'many'}, ''),
    ({'rollout.group_size': 7}, 'rollout.group_size 7'),
  ):
    with errors.raises(ValueError, words):
      sweep_runs.plan('configs/grpo.py:tiny', [{}, changes], tmp_path)


def test_runs_that_go_together(tmp_path):
  runs = list(grid.grid(steps=(3, 4), seed=(0, 1, 2)))
  plan = sweep_runs.plan('configs/grpo.py:tiny', runs, str(tmp_path))
  groups = sweep_runs.groups(plan, 2)
  assert [[r.name for r in x] for x in groups] == [
    ['seed=0,steps=3', 'seed=1,steps=3'],
    ['seed=2,steps=3'],
    ['seed=0,steps=4', 'seed=1,steps=4'],
    ['seed=2,steps=4'],
  ]
  assert sweep_runs.groups(plan, 1) == [[r] for r in plan]


@pytest.mark.parametrize(
  ('config', 'changes', 'whole'),
  [
    ('grpo', {'steps': 5, 'sft.steps': 7}, 12),
    ('training_free_grpo', {'steps': 5, 'stage.follow.steps': 9}, 14),
  ],
)
def test_progress_is_reported_without_a_terminal(
  tmp_path, capsys, config, changes, whole
):
  """At once and then every so often, not only when a run ends."""
  name = f'configs/{config}.py:tiny'
  plan = sweep_runs.plan(name, [changes], str(tmp_path))

  def pool(jobs, places, look):
    for _ in range(3):
      look([job.name for job in jobs], {})
    return {job.name: 0 for job in jobs}

  sweep_runs.run(plan, 1, runner=pool)
  lines = capsys.readouterr().err.splitlines()
  assert [f'0/{whole}' in line for line in lines] == [True]


def test_results_are_the_evaluations(tmp_path, monkeypatch):
  rows = [{'phase': x, 'step': i} for i, x in enumerate(['rl', 'eval', 'rl'])]
  text = ''.join(json.dumps(row) + '\n' for row in rows)
  (tmp_path / 'metrics.jsonl').write_text(text)
  monkeypatch.setattr(sweep_runs, 'finished', lambda r: True)
  job = local.Job('a', (), str(tmp_path / 'log'))
  run = sweep_runs.SweepRun(
    'a', 'grpo', {}, grpo.get_config('tiny'), str(tmp_path), job
  )
  (found,) = sweep_runs.results([run])
  assert [row['step'] for row in found['eval']] == [1]


@pytest.mark.nightly
def test_cut_off_and_repeated(tmp_path):
  """A sweep that is killed and repeated has the results of one that is not."""

  def start(folder):
    command = (
      sys.executable,
      '-m',
      'experiments.sweep',
      '--jobs=2',
      '--seeds=2',
      '--config=configs/grpo.py:tiny,env=frozen_lake',
      '--grid=steps=2,3',
      '--grid=sft.steps=4',
      '--grid=eval.episodes=16',
      f'--workdir={tmp_path / folder}',
    )
    return subprocess.Popen(command)

  assert start('whole').wait() == 0
  killed = start('cut')
  time.sleep(25)
  killed.send_signal(signal.SIGKILL)
  killed.wait()
  assert start('cut').wait() == 0
  one, other = (
    (tmp_path / x / 'sweep.json').read_text() for x in ('whole', 'cut')
  )
  strip = lambda text: [  # noqa: E731
    line for line in text.splitlines() if 'time/' not in line
  ]
  assert strip(one) == strip(other)
  assert one.count('"name"') == 4
