"""Memory-R1: what each stage trains, on what the other role did."""

import pytest

from agentrl.configs import memory_r1
from agentrl.log import metrics
from agentrl.run import config_file, runner
from tests.integration import half_good
from tests.integration.staged_methods_test import SMALL


def config(folder, **changes):
  c = memory_r1.get_config('tiny')
  config_file.change(c, SMALL | {'data': str(folder / 'data'), 'sft.steps': 0})
  for stage in c.stage.values():
    stage.steps = 2
  config_file.change(c, changes)
  return c


def trained(c, folder):
  """Runs the config: the rows of metrics of its updates, by stage."""
  runner.run(c, str(folder / 'run'))
  rows = metrics.read(str(folder / 'run' / 'metrics.jsonl'))
  rows = [x for x in rows if x['phase'] == 'rl']
  names = dict.fromkeys(x['stage'] for x in rows)
  return {name: [x for x in rows if x['stage'] == name] for name in names}


def writes(demo):
  """Attempts of an expert, and of one whose notes say nothing."""
  return [demo, ['add ?'] * len(demo)]


@pytest.mark.slow
@pytest.mark.nightly
def test_roles_are_trained_in_turn(tmp_path):
  """Each stage asks a copy for the other role, about all it has to do."""
  c = config(tmp_path)
  by_stage = trained(c, tmp_path)
  assert list(by_stage) == ['manager', 'answerer']
  calls = 'rollout/service/{}/calls'
  for x in by_stage['manager']:
    # Once for every question, of which a task has one or two.
    assert c.rollout.batch <= x[calls.format('answerer')] <= c.rollout.batch * 2
    assert calls.format('manager') not in x
  for x in by_stage['answerer']:
    assert x[calls.format('manager')] == c.rollout.batch * c.env.sessions
    assert calls.format('answerer') not in x
    assert x['rollout/turns'] <= 2
  assert [len(x) for x in by_stage.values()] == [2, 2]


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize('bank', [2, 0])
def test_operations_are_trained_by_what_they_leave_to_the_answerer(
  tmp_path, monkeypatch, bank
):
  """The idea: without a bank, answers do not tell operations apart."""
  half_good.plays(monkeypatch, writes)
  exact = {
    'stage.manager.env.answerer': 'exact',
    'stage.manager.service.answerer.role': '',
    'env.bank': bank,
    'env.retractions': 0.0,
  }
  c = config(tmp_path, **exact)
  c.stages = ('manager',)
  with c.unlocked():
    del c.stage['answerer']
  (rows,) = trained(c, tmp_path).values()
  for x in rows:
    assert (x['policy/grad_norm'] > 0) == (bank > 0)
