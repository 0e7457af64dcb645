"""Runs whose labels come late: how slow the annotator is changes nothing."""

import importlib
import time

import numpy as np
import pytest

from agentrl.configs import base
from agentrl.run import runner
from tests.integration import half_good
from tests.integration.cut import after_row
from tests.integration.judged_methods_test import small
from tests.integration.same import CLOCK, assert_same_run, rows

SLOW = {'seconds': 0.0}
# A run that goes on finds answers of before in its folder.
BUT = (*CLOCK, 'rollout/judge/function/cached')


def progressed(item):
  """Whether a turn made progress; takes its time."""
  time.sleep(SLOW['seconds'])
  return float(item.here.terms['progress'] > 0)


def config(method, form, folder):
  module = importlib.import_module(f'agentrl.configs.{method}')
  c = small(module.get_config('tiny,judged=function'), folder)
  base.hp(c, 'judge', 'function', path=f'{__name__}:progressed')
  c.update(dict(steps=5, micro_batch=8))
  c.env.train, c.sft.steps, c.checkpoint.every = 2, 0, 2
  c.hp.memory.annotations.update(dict(lag=2, batches=3))
  if form:
    c.hp.signal.annotated_reward.form = form
  return c


@pytest.mark.slow
@pytest.mark.parametrize(
  ('method', 'form'),
  [
    ('oni_learned', 'classification'),
    pytest.param('oni_learned', 'ranking', marks=pytest.mark.nightly),
    pytest.param('oni', '', marks=pytest.mark.nightly),
  ],
)
def test_a_slow_annotator_and_a_kill_change_nothing(
  method, form, tmp_path, monkeypatch
):
  """Labels of steps 2 and 3 are under way where the run goes on, at step 4."""
  half_good.plays(monkeypatch, half_good.half_right)
  c = config(method, form, tmp_path)
  whole, cut = str(tmp_path / 'whole'), str(tmp_path / 'cut')
  runner.run(c, whole)
  monkeypatch.setitem(SLOW, 'seconds', 0.05)
  with after_row(5):
    runner.run(c, cut)
  runner.run(c, cut)
  assert_same_run(whole, cut, steps=5, but=BUT)
  rl = [r for r in rows(whole) if r['phase'] == 'rl']
  come = [r['rollout/judge/function/items'] for r in rl]
  assert come[:2] == [0, 0]
  assert min(come[2:]) > 0
  assert 0 < rl[-1]['annotations/label'] < 1
  assert all(np.isfinite(r['loss/total']) for r in rl)
  if form:
    assert [r['annotated_reward/paid'] for r in rl[:3]] == [0, 0, 0]
    assert rl[-1]['annotated_reward/paid'] > 0
