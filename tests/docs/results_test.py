"""docs/RESULTS.md says what its reports say."""

import csv
import glob
import json
import pathlib

import numpy as np
import pytest
from scipy import stats

from agentrl.report.study import tables
from agentrl.stats import paired
from agentrl.study import panel
from docs.generate import board, results


def test_the_page_has_the_tables_of_its_reports():
  with open('docs/RESULTS.md', encoding='utf-8') as f:
    page = f.read()
  reports = results.reports('docs')
  assert reports
  for name, report in reports.items():
    if name == board.NAME:  # it has a page of its own
      continue
    assert results.put(page, name, tables.markdown(report)) == page
    assert f'results/{name}.html' in page


def test_a_page_without_marks_is_refused():
  with pytest.raises(ValueError, match='lacks the marks <!-- x -->'):
    results.put('words', 'x', 'table')


def published():
  return sorted(map(pathlib.Path, glob.glob('docs/results/*.csv')))


def differences(path):
  """{(env, setting, arm, measure): {seed: value}} of a table of runs."""
  values = {}
  with path.open(encoding='utf-8', newline='') as f:
    for row in csv.DictReader(f):
      env, setting, arm, seed, _, _ = list(row.values())[:6]
      for measure, x in list(row.items())[6:]:
        of = values.setdefault((env, setting, arm, measure), {})
        of[int(seed)] = float(x) if x else np.nan
  return values


@pytest.mark.parametrize('path', published(), ids=lambda path: path.stem)
def test_scipy_and_statsmodels_find_the_same_in_the_runs(path):
  """Every difference, its interval, its p and what Holm makes of it."""
  multitest = pytest.importorskip(
    'statsmodels.stats.multitest', reason="pip install -e '.[dev]'"
  )
  values, report = differences(path), results.reports('docs')[path.stem]
  for env, of_env in report['envs'].items():
    for setting, of_setting in of_env['settings'].items():
      for measure in report['measures']:
        rows = [x for x in of_setting['comparisons'] if x['measure'] == measure]
        for row in rows:
          a, b = (
            values[env, setting, row[arm], measure]
            for arm in ('arm', 'baseline')
          )
          pairs = [
            (a[i], b[i])
            for i in a
            if np.isfinite([a[i], b.get(i, np.nan)]).all()
          ]
          x, y = np.array(pairs).T
          got = stats.ttest_rel(x, y)
          interval = got.confidence_interval(0.95)
          assert row['n'] == len(pairs)
          assert row['mean'] == pytest.approx(
            np.mean(x - y), rel=1e-5, abs=1e-6
          )
          if np.ptp(x - y):
            want = [row['p'], row['low'], row['high']]
            found = [got.pvalue, interval.low, interval.high]
            np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-6)
        ps = [x['p'] for x in rows]
        holm = multitest.multipletests(ps, method='holm')[1] if ps else []
        np.testing.assert_allclose(
          holm, [x['holm'] for x in rows], rtol=1e-4, atol=1e-6
        )


def test_a_published_panel_has_the_hash_of_its_report():
  for name, report in results.reports('docs').items():
    if 'panel' in report:
      text = pathlib.Path(f'docs/results/panels/{name}.json').read_text()
      assert panel.digest(json.loads(text)) == report['panel']


def test_verdicts_follow_from_what_was_found():
  for name, report in results.reports('docs').items():
    for claim in report['claims']:
      if x := claim['found']:
        want = paired.verdict(x['low'], x['high'], claim['claimed'], x['holm'])
        assert claim['verdict'] == want, (name, claim['text'])
