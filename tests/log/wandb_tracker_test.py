"""Weights & Biases get what the event files get, from a stand-in for them."""

import sys

import pytest

from agentrl.configs import grpo
from agentrl.log import metrics, wandb_tracker
from agentrl.run import runner
from agentrl.run.check import validate
from tests import errors
from tests.log import fake_wandb

runs = fake_wandb.runs  # a fixture


def begin(folder, resume_after=None):
  tracker = wandb_tracker.Tracker(
    'mine', folder, resume_after=resume_after, config={'seed': 3}
  )
  return metrics.MetricsWriter(
    folder, resume_after=resume_after, header={}, tracker=tracker
  )


def test_it_gets_every_finite_number(runs, tmp_path):
  w = begin(tmp_path / 'grpo')
  w.write(1, {'loss/total': 0.5, 'prm/loss': float('nan')}, phase='rl')
  w.write(1, {'eval/success': 1}, phase='eval')
  w.close()
  w.close()
  (run,) = runs
  assert run.rows == [(1, {'loss/total': 0.5}), (1, {'eval/success': 1})]
  assert run.ended
  assert run.settings['project'] == 'mine'
  assert run.settings['name'] == 'grpo'
  assert run.settings['config'] == {'seed': 3}
  assert run.settings['resume'] == 'allow'


def test_a_restart_joins_its_run_and_a_new_start_does_not(runs, tmp_path):
  for resume_after in (None, 1, None):
    w = begin(tmp_path, resume_after)
    w.write(2, {'x': 1}, phase='rl')
    w.close()
  first, again, new = (run.settings['id'] for run in runs)
  assert first == again != new


def test_not_installed_is_one_sentence_before_anything_else(
  tmp_path, monkeypatch
):
  monkeypatch.setitem(sys.modules, 'wandb', None)
  c = grpo.get_config('tiny')
  c.log.wandb = 'mine'
  with errors.raises(ValueError, 'agentrl-jax'):
    runner.run(c, str(tmp_path / 'run'))
  assert not (tmp_path / 'run').exists()
  c.log.wandb = ''
  validate.log(c)


@pytest.mark.parametrize('how', ['', 'x\n', '\xff' * 33, 'folder'])
def test_a_damaged_id_is_kept_beside_and_the_run_goes_on(runs, tmp_path, how):
  begin(tmp_path).close()
  path = tmp_path / wandb_tracker.ID
  if how == 'folder':
    path.unlink()
    path.mkdir()
  else:
    path.write_text(how, encoding='latin-1')
  begin(tmp_path, resume_after=3).close()
  first, second = (run.settings['id'] for run in runs)
  assert first != second
  assert path.read_text() == second + '\n'
  assert path.with_name('wandb_id.damaged.1').exists()
