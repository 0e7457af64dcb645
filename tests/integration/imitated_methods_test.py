"""Methods that imitate demonstrations of their own worlds, and only that."""

import importlib

import numpy as np
import pytest

from agentrl.log import metrics
from agentrl.run import build, runner
from agentrl.run.play import sampler
from agentrl.run.stage import sources

IMITATED = ('agentrefine', 'faft', 'proactive_agent', 'smart')


def small(method, folder):
  c = importlib.import_module(f'agentrl.configs.{method}').get_config('tiny')
  c.data = str(folder / 'data')
  c.env.update(dict(train=8, test=2))
  c.model.update(dict(width=8, layers=1, heads=1, kv_heads=1, head_dim=8))
  c.rollout.update(dict(batch=8, group_size=4, slots=8))
  c.sft.update(dict(steps=2, batch=8))
  c.micro_batch, c.eval.episodes = 8, 8
  return c


def test_mistakes_of_agentrefine_have_no_weight(tmp_path):
  s = build.experiment(small('agentrefine', tmp_path))
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
@pytest.mark.parametrize('method', IMITATED)
def test_it_is_trained_and_evaluated_in_its_world(tmp_path, method):
  c = small(method, tmp_path)
  assert tuple(c.stages) == ('sft',)
  runner.run(c, str(tmp_path / 'run'))
  rows = metrics.read(str(tmp_path / 'run' / 'metrics.jsonl'))
  assert [r['phase'] for r in rows] == ['sft', 'sft', 'eval']
  assert all(np.isfinite(r['loss/total']) for r in rows[:2])
