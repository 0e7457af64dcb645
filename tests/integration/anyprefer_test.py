"""Anyprefer, played by a script: rounds learn from pairs that were kept."""

import itertools
import re

import jax
import numpy as np
import pytest

from agentrl import Run
from agentrl.configs import anyprefer
from agentrl.dataset import trajectory_store
from agentrl.log import metrics
from agentrl.run import config_file, weights
from tests.integration import half_good, same
from tests.integration.staged_methods_test import SMALL

pytestmark = pytest.mark.slow

UPDATES = 2  # of a fit
ROUNDS = 2
SETTINGS = {
  'rollout.batch': 32,
  'sft.batch': 4,
  'micro_batch': 4,
  'sft.steps': 0,
  'checkpoint.every': 1,
  'role.policy.lr': 1e-2,
}


def ways(demo):
  """Right or wrong by arithmetic alone; what breaks the rules; no answer."""
  a, sign, b = re.findall(r'\d+|[-+*]', demo[-1])
  wrong = [f'{a}{x}{b}' for x in '+-*' if x != sign] + [f'{b}-{a}*1']
  said = [[f'<answer>{x}</answer>'] for x in wrong]
  return [demo, *said, demo, ['<answer>99</answer>'], demo, ['hm'] * 3]


def config(folder, **changes):
  c = anyprefer.get_config('tiny')
  c.stages = c.stages[1 : 1 + 2 * ROUNDS]
  with c.unlocked():
    for name in [*c.stage]:
      if name not in c.stages:
        del c.stage[name]
  config_file.change(
    c, SMALL | SETTINGS | {'data': str(folder / 'data')} | changes
  )
  for name, stage in c.stage.items():
    stage.steps = UPDATES if name.startswith('fit') else 1
    if stage.kind == 'sft':
      stage.sft.lr, stage.sft.warmup = 1e-2, 0
  return c


def is_same(one, other):
  return all(np.array_equal(a, b) for a, b in same.pairs(one, other))


@pytest.fixture(scope='module')
def run(tmp_path_factory):
  """(folder, parameters behind each sample, those at the end)."""
  folder = tmp_path_factory.mktemp('rounds')
  c, sampled = config(folder), []
  with pytest.MonkeyPatch.context() as patch:
    half_good.plays(patch, ways)
    with Run(c, workdir=str(folder / 'run')) as run:
      for _, state, _ in run:
        sampled.append(jax.device_get(state.params))
      shape = run.experiment.shape
    _, state = weights.load(c, shape, str(folder / 'run'))
  return folder / 'run', sampled, jax.device_get(state.params)


def test_the_policy_learns_from_pairs_to_a_reference_of_the_round_before(run):
  folder, sampled, end = run
  assert len(sampled) == ROUNDS
  for before, after in itertools.pairwise([*sampled, end]):
    assert set(after) == {'policy', 'reference'}
    assert not is_same(before['policy'], after['policy'])
  assert is_same(end['reference'], sampled[-1]['policy'])
  rows = metrics.read(str(folder / 'metrics.jsonl'))
  fits = [x for x in rows if x['phase'] == 'sft']
  assert len(fits) == ROUNDS * UPDATES
  for first, second in zip(fits[::2], fits[1::2], strict=True):
    assert first['dpo/margin'] == 0
    assert second['dpo/margin'] != 0
    for x in (first, second):
      assert x['dpo/pairs'] > 0
      assert np.isfinite(x['loss/total'])
      assert not x['policy/nonfinite_skips']


def test_pairs_are_right_of_one_group_and_the_loop_is_logged(run):
  folder, _, _ = run
  rows = metrics.read(str(folder / 'metrics.jsonl'))
  sampled = [x for x in rows if x['phase'] == 'rl']
  for r, row in enumerate(sampled, 1):
    store = trajectory_store.open_store(folder, f'fit_{r}.paired')
    xs = store.take(np.arange(len(store)))
    for win, lose in zip(xs[::2], xs[1::2], strict=True):
      assert (win.step, win.group) == (lose.step, lose.group)
      assert win.step == 1 + (r - 1) * (1 + UPDATES)
      assert win.outcome > lose.outcome
    told = {x: row[f'rollout/judge/tool_ranking/{x}'] for x in COUNTS}
    assert told['pairs'] == told['right_pairs'] == len(xs) / 2 > 0
    assert told['pairs'] + told['dropped'] == told['items'] == 4
    assert told['unscored'] == 0
  assert sum(x['rollout/judge/tool_ranking/revised'] for x in sampled) > 0


COUNTS = ('pairs', 'right_pairs', 'dropped', 'items', 'unscored')
