"""TeaRAG, played by a script: its rounds learn from the paths they sampled."""

import itertools

import jax
import numpy as np
import pytest

from agentrl import Run
from agentrl.configs import tearag_ipdpo
from agentrl.dataset import trajectory_store
from agentrl.log import metrics
from agentrl.run import config_file, weights
from agentrl.runtime import install
from tests.integration import half_good, same
from tests.integration.staged_methods_test import SMALL

pytest.importorskip('bm25s', reason=install.command('host'))
pytestmark = pytest.mark.slow

UPDATES = 2  # of a fit
SETTINGS = {
  'env.careful': 0.0,
  'env.people': 100,
  'sft.steps': 0,
  'checkpoint.every': 1,
  'role.policy.lr': 1e-2,
}


def ways(demo):
  """Right in detours, right, from memory; wrong; not understood first."""
  *calls, answer = demo
  wrong = [*calls, '<answer>Nobody</answer>']
  detour = [*calls, calls[0], answer]
  return [detour, demo, demo, wrong, ['hm', *demo], [answer], wrong, detour]


def config(folder):
  c = tearag_ipdpo.get_config('tiny')
  config_file.change(c, SMALL | SETTINGS | {'data': str(folder / 'data')})
  for name, stage in c.stage.items():
    stage.steps = UPDATES if name.startswith('fit') else 1
    if stage.kind == 'sft':
      stage.sft.lr, stage.sft.warmup = 1e-2, 0
  c.stages = c.stages[1:]
  return c


def is_same(one, other):
  return all(np.array_equal(a, b) for a, b in same.pairs(one, other))


@pytest.fixture(scope='module')
def run(tmp_path_factory):
  """(config, folder, parameters behind each sample, those at the end)."""
  folder = tmp_path_factory.mktemp('rounds')
  c, sampled = config(folder), []
  with pytest.MonkeyPatch.context() as patch:
    half_good.plays(patch, ways)
    with Run(c, workdir=str(folder / 'run')) as run:
      for _, state, _ in run:
        sampled.append(jax.device_get(state.params))
      shape = run.experiment.shape
    _, state = weights.load(c, shape, str(folder / 'run'))
  return c, folder / 'run', sampled, jax.device_get(state.params)


def test_only_the_policy_learns_and_its_reference_is_the_round_before(run):
  _, folder, sampled, end = run
  assert len(sampled) == 3
  every = [*sampled, end]
  assert all(set(x) == {'policy', 'reference'} for x in every)
  for before, after in itertools.pairwise(every):
    assert not is_same(before['policy'], after['policy'])
  # Behind the last fit it is what sampled its pairs.
  assert is_same(end['reference'], sampled[-1]['policy'])
  rows = metrics.read(str(folder / 'metrics.jsonl'))
  fits = [x for x in rows if x['phase'] == 'sft']
  assert len(fits) == 3 * UPDATES
  for first, second in zip(fits[::2], fits[1::2], strict=True):
    assert first['dpo/margin'] == 0
    assert second['dpo/margin'] != 0
    for x in (first, second):
      assert x['dpo/pairs'] > 0
      assert x['winner_nll/nll'] > 0
      assert not x['policy/nonfinite_skips']


def test_pairs_are_of_the_last_samples_and_say_which_path_is_better(run):
  """Right ones among the losers too, which outcomes would not tell apart."""
  for r in (1, 2, 3):
    store = trajectory_store.open_store(run[1], f'fit_{r}.paired')
    xs = store.take(np.arange(len(store)))
    (at,) = {x.step for x in xs}  # of one stage: the one before
    assert at == 1 + (r - 1) * (1 + UPDATES)
    kinds = set()
    for win, lose in zip(xs[::2], xs[1::2], strict=True):
      assert win.task == lose.task
      assert win.solved
      good, bad = term(win), term(lose)
      assert not good['invalid']
      if bad['invalid']:
        kinds.add('malformed')
      elif not lose.solved:
        kinds.add('wrong')
      else:
        kinds.add('weaker')
        assert bad['evidence_coverage'] < good['evidence_coverage'] - 0.05
    assert kinds == {'malformed', 'wrong', 'weaker'}


def term(x):
  """Sums of the terms of a trajectory."""
  names = 'invalid', 'evidence_coverage'
  return {n: sum(t.terms[n] for t in x.turns) for n in names}
