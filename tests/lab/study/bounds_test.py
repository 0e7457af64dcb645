"""Claims over seeds: their differences, their tables, their file."""

import json

import numpy as np
import pytest
from scipy import stats

from agentrl.lab.study import bounds
from agentrl.lab.study.bounds import Bound

REPORT = {
  'seeds': 4,
  'cells': {
    'new': {'x': [0.9, 0.7, 0.8, 0.9], 'each': [[0.0, 1.0], [0.5, 1.0]] * 2},
    'old': {'x': [0.1, 0.2, 0.3, 0.2], 'each': [[0.0, 0.0], [0.0, 0.5]] * 2},
  },
}


def test_a_claim_is_found_where_the_paired_interval_is_above_zero():
  new, old = (np.array(REPORT['cells'][x]['x']) for x in ('new', 'old'))
  d = new - old
  half = stats.t.ppf(0.975, 3) * d.std(ddof=1) / 2
  got = bounds.gap(REPORT, Bound('x', 'new', 'old'))
  assert (got.mean, got.low, got.high) == pytest.approx(
    (d.mean(), d.mean() - half, d.mean() + half)
  )
  claims = {'A': Bound('x', 'new', 'old'), 'B': Bound('x', 'old', 'new')}
  *_, a, b = bounds.claims(REPORT, claims)
  assert a.startswith('| A | yes | +0.625 [')
  assert b.startswith('| B | no | -0.625 [')


def test_measures_are_collected_by_name_and_rounded():
  runs = [{'x': 1 / 3, 'each': [2 / 3, 0]}, {'x': 1.0, 'each': [0, 1]}]
  assert bounds.rounded(runs) == {
    'x': [0.3333, 1.0],
    'each': [[0.6667, 0.0], [0, 1]],
  }
  (zero,) = bounds.rounded([{'x': -1e-9}])['x']
  assert str(zero) == '0.0'


def test_a_table_has_a_row_for_each_arm():
  lines = bounds.by_index(REPORT, ['old', 'new'], ('by index', 'to 1', 'to 2'))
  assert lines == [
    '',
    '| by index | to 1 | to 2 |',
    '|---|---|---|',
    '| old | 0.00 | 0.25 |',
    '| new | 0.25 | 1.00 |',
  ]
  assert bounds.mean([0.4, 0.6]) == '0.500 [-0.771, 1.771]'


def test_a_report_is_kept_and_told(tmp_path, capsys):
  folder = tmp_path / 'a' / 'b'
  bounds.keep(REPORT, '| table |', str(folder), 'study')
  assert json.loads((folder / 'study.json').read_text()) == REPORT
  assert capsys.readouterr().out == f'| table |\nwritten to {folder}\n'


def test_a_seed_that_was_kept_is_not_run_again(tmp_path):
  asked = []

  def run(seed):
    asked.append(seed)
    return {'x': [seed, 0.5]}

  folder = str(tmp_path / 'a')
  assert bounds.of_seeds(run, (3, 4), folder) == {
    '3': {'x': [3, 0.5]},
    '4': {'x': [4, 0.5]},
  }
  assert bounds.read(f'{folder}/seed=4.json') == {'x': [4, 0.5]}
  assert bounds.of_seeds(run, (4, 5), folder).keys() == {'4', '5'}
  assert asked == [3, 4, 5]
