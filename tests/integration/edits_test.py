"""Runs whose policy drops turns of its conversations."""

import json

import numpy as np
import pytest

from agentrl.configs import memact_dcpo
from agentrl.log import metrics
from agentrl.run import runner
from tests.integration import half_good, same
from tests.integration.cut import after_row
from tests.integration.staleness_test import partial_rollouts, stale
from tests.run import small_configs


def say(texts):
  """Scripts that solve a task, find one thing, and drop what is not there."""
  none = [*texts[:1], '<drop>7</drop>', *texts[2:4], '<answer>tea</answer>']
  return [texts, none]


def config(folder, **edits):
  c = small_configs.two_layers(memact_dcpo.get_config('tiny'), folder)
  c.env.update(dict(train=8, test=4))
  c.rollout.update(dict(max_turns=8, max_message_tokens=34))
  c.edits.update(edits)
  return c


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize('arm', ['own', 'ignored', 'window'])
def test_two_updates(tmp_path, arm, monkeypatch):
  """Edits earn where they are done, and nothing where they are ignored."""
  half_good.plays(monkeypatch, say)
  c = config(tmp_path, arm=arm)
  c.sft.steps, c.sft.batch, c.log.groups = 2, 8, -1
  runner.run(c, str(tmp_path / 'run'))
  rows = metrics.read(str(tmp_path / 'run' / 'metrics.jsonl'))
  steps = [x for x in rows if x.get('phase') == 'rl']
  assert [x['step'] for x in steps] == [3, 4]
  for x in steps:
    assert np.isfinite(x['loss/total'])
    assert x['rollout/edit'] > 0.2
    solved = {'own': 0.5, 'ignored': 0.0}
    if arm in solved:
      assert x['rollout/success'] == solved[arm]
  files = sorted((tmp_path / 'run' / 'trajectories').glob('*.jsonl'))
  lines = [json.loads(x) for f in files for x in f.read_text().splitlines()]
  assert ('tree' in {x['history'] for x in lines}) == (arm != 'ignored')


@pytest.mark.nightly
def test_unfinished_attempts_go_on_after_a_kill(tmp_path, monkeypatch):
  """Cut before and behind their edits: the same run."""
  half_good.plays(monkeypatch, say)

  def run_config():
    c = config(tmp_path)
    c.steps, c.checkpoint.every = 6, 2
    c = stale(c, tmp_path, bound=0)
    return partial_rollouts(c, segment=3, segments=3)

  whole, cut = str(tmp_path / 'whole'), str(tmp_path / 'cut')
  runner.run(run_config(), whole)
  with after_row(3):
    runner.run(run_config(), cut)
  runner.run(run_config(), cut)
  same.assert_same_run(
    whole, cut, steps=6, but=(*same.SLOTS, 'eval/engine/'), atol=1e-5
  )
  read = [r for r in same.rows(cut) if r['phase'] == 'rl']
  assert max(r['rollout/replayed'] for r in read) > 0
  assert max(r.get('rollout/edit', 0) for r in read) > 0
