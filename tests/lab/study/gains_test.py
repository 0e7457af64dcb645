"""Gains of runs: first and last evaluation, paired by run."""

import json

import numpy as np
import pytest
from scipy import stats

from agentrl.lab.study import gains
from tests import errors

BEFORE, AFTER = (0.5, 0.6, 0.55), (0.7, 0.75, 0.72)


def write(folder, *evaluations):
  folder.mkdir(parents=True)
  rows = [{'step': 1, 'phase': 'sft', 'loss': 2.0}]
  for k, x in enumerate(evaluations):
    row = {'step': 10 * (k + 1), 'phase': 'eval', 'eval/success': x}
    rows.append(row | {'eval/total/price': 1 - x})
  text = ''.join(json.dumps(row) + '\n' for row in rows)
  (folder / 'metrics.jsonl').write_text(text)
  seed = int(folder.name.partition('=')[2] or 0)
  (folder / 'config.json').write_text(json.dumps({'seed': seed}))


@pytest.fixture
def sweep(tmp_path):
  for k, (x, y) in enumerate(zip(BEFORE, AFTER, strict=True)):
    write(tmp_path / f'seed={k}', x, 0.0, y)
  (tmp_path / '.cache').mkdir()
  return str(tmp_path)


def test_first_and_last_evaluation_of_each_run(sweep):
  x = gains.gain(gains.runs_in(sweep), 'eval/success', 0.3)
  assert (x.before, x.after) == (BEFORE, AFTER)
  test = stats.ttest_rel(AFTER, BEFORE)
  np.testing.assert_allclose(x.difference.p, test.pvalue, rtol=1e-9)
  low, high = test.confidence_interval(0.95)
  interval = (x.difference.low, x.difference.high)
  np.testing.assert_allclose(interval, (low, high), rtol=1e-9)
  d = np.subtract(AFTER, BEFORE)
  sides = (
    stats.ttest_1samp(d, -0.3, alternative='greater').pvalue,
    stats.ttest_1samp(d, 0.3, alternative='less').pvalue,
  )
  np.testing.assert_allclose(x.equivalence, sides, rtol=1e-9)
  assert x.equivalence.p == max(x.equivalence)


def test_runs_are_paired_with_baselines_by_seed(sweep, tmp_path):
  others = tmp_path / 'others'
  for seed, y in ((2, 0.6), (0, 0.4), (1, 0.5)):
    write(others / f'arm{seed}-seed={seed}', 0.1, y)
  runs, baselines = gains.runs_in(sweep), gains.runs_in(str(others))
  x = gains.gain(runs, 'eval/success', baselines=baselines)
  assert (x.before, x.after) == ((0.4, 0.5, 0.6), AFTER)
  text = gains.table([x], names=('baseline', 'runs'))
  assert text.startswith('| metric | baseline | runs |')
  for wrong in (baselines[:2], [*baselines, baselines[0]]):
    with pytest.raises(ValueError):
      gains.gain(runs, 'eval/success', baselines=wrong)


def test_the_table_says_it(sweep):
  runs = gains.runs_in(sweep)
  price = gains.gain(runs, 'eval/total/price')
  text = gains.table([price, gains.gain(runs, 'eval/success', 0.3)])
  assert '| `eval/total/price` | 0.450 [' in text
  assert '-0.173 [' in text
  assert '+0.173 [' in text
  assert '; 0.3 lower: p = 0.00' in text


def test_a_folder_may_be_one_run(sweep):
  assert gains.runs_in(f'{sweep}/seed=1') == [f'{sweep}/seed=1']


def test_what_cannot_be_compared_is_refused(tmp_path, sweep):
  write(tmp_path / 'short' / 'run', 0.5)
  with errors.raises(ValueError, '1'):
    gains.gain([str(tmp_path / 'short' / 'run')], 'eval/success')
  with errors.raises(ValueError, 'eval/success'):
    gains.gain(gains.runs_in(sweep), 'eval/total/f1')
  with pytest.raises(ValueError):
    gains.runs_in(str(tmp_path / 'nothing'))
  with errors.raises(ValueError, '2'):
    gains.gain([f'{sweep}/seed=0'], 'eval/success')
