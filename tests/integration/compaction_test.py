"""Runs whose conversations begin anew behind the policy's own summaries."""

import json

import numpy as np
import pytest

from agentrl.configs import base, compaction_rl
from agentrl.log import metrics
from agentrl.run import runner
from tests.integration import same
from tests.integration.cut import after_row
from tests.integration.staleness_test import partial_rollouts, stale
from tests.run import small_configs


def config(folder, **compaction):
  c = small_configs.two_layers(compaction_rl.get_config('tiny'), folder)
  c.env.update(dict(train=8, test=4))
  c.rollout.update(dict(max_turns=12, max_message_tokens=20))
  c.compaction.update(compaction)
  return c


def rows_of(folder, phase):
  rows = metrics.read(str(folder / 'metrics.jsonl'))
  return [x for x in rows if x.get('phase') == phase]


@pytest.mark.slow
@pytest.mark.parametrize(
  'summary',
  [
    'own',
    *(
      pytest.param(x, marks=pytest.mark.nightly)
      for x in ('masked', 'shuffled', 'none')
    ),
  ],
)
def test_two_updates(tmp_path, summary):
  """What is trained is what was sampled, in every segment."""
  c = config(tmp_path, summary=summary)
  c.sft.steps, c.sft.batch = 2, 8
  c.log.groups = -1
  runner.run(c, str(tmp_path / 'run'))
  steps = rows_of(tmp_path / 'run', 'rl')
  assert [x['step'] for x in steps] == [3, 4]
  for x in steps:
    assert x['logp/sampler_mismatch_max'] < 5e-5
    assert np.isfinite(x['loss/total'])
    assert (x['rollout/summary'] > 0) == (summary != 'none')
  files = sorted((tmp_path / 'run' / 'trajectories').glob('*.jsonl'))
  lines = [json.loads(x) for f in files for x in f.read_text().splitlines()]
  assert 'tree' in {x['history'] for x in lines}
  if summary == 'none':
    return
  marked = [
    turn['said'].get('weight', [1.0])
    for x in lines
    for turn in x['turns']
    if turn['terms']['summary']
  ]
  assert marked
  assert {w for x in marked for w in np.ravel(x)} == {
    0.0 if summary == 'masked' else 1.0
  }


@pytest.mark.nightly
def test_a_killed_run_inside_jit_goes_on_bit_for_bit(tmp_path):

  def run_config():
    arg = 'tiny,env=carried_code'
    c = small_configs.two_layers(compaction_rl.get_config(arg), tmp_path)
    c.env.update(dict(train=8, test=4))
    c.rollout.max_turns, c.steps, c.log.groups = 10, 4, -1
    c.reward = ('env', 'turn_cost')  # an untrained policy solves nothing
    base.hp(c, 'reward', 'turn_cost', cost=0.1)
    return c

  whole, cut = str(tmp_path / 'whole'), str(tmp_path / 'cut')
  runner.run(run_config(), whole)
  with after_row(2):
    runner.run(run_config(), cut)
  runner.run(run_config(), cut)
  same.assert_same_run(whole, cut, steps=4)
  steps = rows_of(tmp_path / 'cut', 'rl')
  assert min(x['rollout/summary'] for x in steps) > 0
  assert max(x['logp/sampler_mismatch_max'] for x in steps) < 5e-5


@pytest.mark.nightly
def test_unfinished_attempts_go_on_after_a_kill(tmp_path):
  """Cut before and behind their summaries: the same run."""

  def run_config():
    c = config(tmp_path)
    c.steps, c.checkpoint.every = 6, 2
    c = stale(c, tmp_path, bound=0)
    return partial_rollouts(c, segment=4, segments=3)

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
  assert max(r.get('rollout/summary', 0) for r in read) > 0
