"""Methods that imitate demonstrations of their own worlds, and only that."""

import importlib

import numpy as np
import pytest

from agentrl.log import metrics
from agentrl.run import build, runner
from agentrl.run.play import sampler
from agentrl.run.stage import sources
from tests.integration.judged_methods_test import small

IMITATED = ('agentrefine', 'faft', 'proactive_agent', 'smart')


def config(method, folder):
  module = importlib.import_module(f'agentrl.configs.{method}')
  c = small(module.get_config('tiny'), folder)
  c.sft.steps = 2
  return c


def test_mistakes_of_agentrefine_have_no_weight(tmp_path):
  s = build.experiment(config('agentrefine', tmp_path))
  with sampler.open_host_sampler(s) as playing:
    source = sources.demonstrations(s, 'refined', s, playing)
    refined = source.take(np.arange(8))
  for x in refined:
    wrong, right = x.turns
    assert (wrong.terms['mistake'], right.terms['mistake']) == (1, 0)
    assert wrong.weight.size
    assert not np.any(wrong.weight)
    assert np.all(right.weight == 1)


@pytest.mark.slow
@pytest.mark.parametrize(
  'method',
  [
    pytest.param(m, marks=pytest.mark.nightly if m != 'smart' else ())
    for m in IMITATED
  ],
)
def test_it_is_trained_and_evaluated_in_its_world(tmp_path, method):
  c = config(method, tmp_path)
  assert tuple(c.stages) == ('sft',)
  runner.run(c, str(tmp_path / 'run'))
  rows = metrics.read(str(tmp_path / 'run' / 'metrics.jsonl'))
  assert [r['phase'] for r in rows] == ['sft', 'sft', 'eval']
  assert all(np.isfinite(r['loss/total']) for r in rows[:2])
