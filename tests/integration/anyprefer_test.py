"""Anyprefer, played by a script: rounds learn from pairs that were kept."""

import re

import numpy as np
import pytest

from agentrl.configs import anyprefer
from agentrl.dataset import trajectory_store
from agentrl.log import metrics
from tests.integration import pair_rounds

pytestmark = pytest.mark.slow

UPDATES = pair_rounds.UPDATES
ROUNDS = 2
BATCHES = {'rollout.batch': 32, 'sft.batch': 4, 'micro_batch': 4}


def ways(demo):
  """Right or wrong by arithmetic alone; what breaks the rules; no answer."""
  a, sign, b = re.findall(r'\d+|[-+*]', demo[-1])
  wrong = [f'{a}{x}{b}' for x in '+-*' if x != sign] + [f'{b}-{a}*1']
  said = [[f'<answer>{x}</answer>'] for x in wrong]
  return [demo, *said, demo, ['<answer>99</answer>'], demo, ['hm'] * 3]


def config(folder):
  c = anyprefer.get_config('tiny')
  c.stages = c.stages[: 1 + 2 * ROUNDS]
  with c.unlocked():
    for name in [*c.stage]:
      if name not in c.stages:
        del c.stage[name]
  return pair_rounds.shorten(c, folder, **BATCHES)


@pytest.fixture(scope='module')
def run(tmp_path_factory):
  folder = tmp_path_factory.mktemp('rounds')
  return pair_rounds.played(config(folder), folder, ways)


def test_the_policy_learns_from_pairs_to_a_reference_of_the_round_before(run):
  pair_rounds.check_learning(run, ROUNDS, ('dpo/pairs',))


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
