"""Two runs, for all tests of the dashboard."""

import pytest

from agentrl.configs import grpo, oprl
from agentrl.report.dashboard import curves as curves_lib
from tests.report import made_up_run


@pytest.fixture(scope='module')
def paths(tmp_path_factory):
  """Two runs; the second is still going on and its last line is torn."""
  root = tmp_path_factory.mktemp('runs')
  c = oprl.get_config('tiny')
  c.sft.steps, c.steps = 160, 32
  made_up_run.write(root / 'one', c, rl=60)
  c = grpo.get_config('tiny')
  c.sft.steps, c.steps, c.role.policy.lr = 160, 32, 1e-3
  made_up_run.write(root / 'two', c, rl=25)
  with (root / 'two' / 'metrics.jsonl').open('a') as f:
    f.write('{"step": 186, "phase": "rl", "loss/to')
  return [str(root / 'one'), str(root / 'two')]


@pytest.fixture(scope='module')
def runs(paths):
  return curves_lib.read(paths)
