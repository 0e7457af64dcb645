"""Pages of docs/results say what their reports say."""

import csv
import glob
import json
import pathlib

import numpy as np
import pytest
from scipy import stats

from agentrl.lab.study import panel, spec
from agentrl.lab.study import run as study_run
from agentrl.report.study import tables
from agentrl.stats import paired
from docs.generate import board, results


def test_the_pages_have_the_tables_of_their_reports():
  reports = results.reports('docs')
  assert reports
  for name, report in reports.items():
    if name == board.NAME:  # docs/BOARD.md
      continue
    page = pathlib.Path(f'docs/results/{name}.md').read_text(encoding='utf-8')
    assert results.put(page, name, tables.markdown(report)) == page


def test_a_page_without_marks_is_refused():
  with pytest.raises(ValueError, match='<!-- x -->'):
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
        by_size = {}
        for row in rows:
          a, b = (
            values[env, setting, row[arm], measure]
            for arm in ('arm', 'baseline')
          )
          x = np.array([a[i] - b.get(i, np.nan) for i in a])
          x = x[np.isfinite(x)]
          assert row['n'] == x.size
          by_size.setdefault(x.size, []).append((row, x))
        for each in by_size.values():
          check_tests(*zip(*each, strict=True))
        ps = [x['p'] for x in rows]
        holm = multitest.multipletests(ps, method='holm')[1] if ps else []
        np.testing.assert_allclose(
          holm, [x['holm'] for x in rows], rtol=1e-4, atol=1e-6
        )


def check_tests(rows, x):
  """Student's test of the paired differences x, as many in each row."""
  x = np.array(x)
  names = ('mean', 'p', 'low', 'high')
  found = np.array([[row[name] for row in rows] for name in names])
  np.testing.assert_allclose(found[0], x.mean(axis=1), rtol=1e-5, atol=1e-6)
  varied = np.ptp(x, axis=1) > 0
  got = stats.ttest_1samp(x[varied], 0.0, axis=1)
  interval = got.confidence_interval(0.95)
  want = np.stack([got.pvalue, interval.low, interval.high])
  np.testing.assert_allclose(found[1:, varied], want, rtol=1e-3, atol=1e-6)


def test_a_published_panel_has_the_hash_of_its_report():
  for name, report in results.reports('docs').items():
    if 'panel' in report:
      text = pathlib.Path(f'docs/results/panels/{name}.json').read_text()
      assert panel.digest(json.loads(text)) == report['panel']


def test_a_page_with_a_panel_has_the_protocol_of_its_study():
  """To the word and in order: its folder is gone on with by that study."""
  for name, report in results.reports('docs').items():
    if 'panel' in report:
      study = study_run.load(f'configs/studies/{name}.py')
      protocol = json.loads(json.dumps(spec.protocol(study)))
      assert protocol == report['protocol'], name


def test_verdicts_follow_from_what_was_found():
  for name, report in results.reports('docs').items():
    for claim in report['claims']:
      if x := claim['found']:
        want = paired.verdict(x['low'], x['high'], claim['claimed'], x['holm'])
        assert claim['verdict'] == want, (name, claim['text'])
