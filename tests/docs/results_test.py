"""The pages of docs/results say what the published reports say."""

import copy
import functools
import json
import math
import pathlib

import numpy as np
import pytest
from scipy import stats

from agentrl.lab.study import panel, spec
from agentrl.lab.study import run as study_run
from agentrl.report.study import page as study_page
from agentrl.report.study import tables
from agentrl.stats import paired
from docs.generate import board, results
from tests import errors

FOLDER = pathlib.Path('docs/results')
REPORTS = results.reports(str(FOLDER))
NAMES = sorted(REPORTS)
# Studies without a panel are older: of each run they published the main
# measure only, to a tenth of a point.
ROUNDED = [name for name in NAMES if 'panel' not in REPORTS[name]]
MEGABYTES = 3


@functools.cache
def archived(name):
  return results.archived(str(FOLDER), name)


def settings(report):
  return [
    (of_setting['arms'], of_setting['comparisons'])
    for of_env in report['envs'].values()
    for of_setting in of_env['settings'].values()
  ]


def measured(arm, measure):
  """{seed: value} of the runs of an arm."""
  found = {run['seed']: run['measures'][measure] for run in arm['each']}
  return {s: math.nan if x is None else x for s, x in found.items()}


@pytest.mark.parametrize('name', NAMES)
def test_a_page_has_the_tables_and_the_picture_of_its_study(name):
  page = (FOLDER / f'{name}.md').read_text(encoding='utf-8')
  report = REPORTS[name]
  if name != board.NAME:  # its table is docs/BOARD.md
    assert results.put(page, name, tables.markdown(report)) == page
  assert f']({name}.svg)' in page
  assert f']({name}.json.xz)' in page
  assert '<svg' in (FOLDER / f'{name}.svg').read_text(encoding='utf-8')


def test_a_page_without_marks_is_refused():
  with errors.raises(ValueError, 'x'):
    results.put('words', 'x', 'table')


@pytest.mark.parametrize('name', NAMES)
def test_a_summary_is_that_of_its_archive(name):
  path = FOLDER / f'{name}.json'
  want = results.text(results.summary(archived(name))) + '\n'
  assert path.read_text(encoding='utf-8') == want


def test_results_are_small():
  size = sum(x.stat().st_size for x in FOLDER.rglob('*') if x.is_file())
  assert size <= MEGABYTES * 1e6


def test_a_taken_report_comes_back_as_it_was(tmp_path):
  report = copy.deepcopy(archived('dose_host'))
  work, docs = tmp_path / 'work', tmp_path / 'docs'
  study_page.write(report, work)
  panels = FOLDER / 'panels' / 'dose_host.json'
  (work / 'panel.json').write_text(panels.read_text())
  results.take(str(work), str(docs))
  assert results.archived(str(docs), 'dose_host') == report
  for name in ('dose_host.json', 'panels/dose_host.json'):
    assert (docs / name).read_text() == (FOLDER / name).read_text()
  results.unpack(str(docs), str(tmp_path / 'pages'))
  got = tmp_path / 'pages' / 'dose_host'
  assert json.loads((got / study_page.JSON).read_text()) == report
  html = (work / study_page.HTML).read_text()
  assert (got / study_page.HTML).read_text() == html


def test_an_unfinished_comparison_is_not_taken(tmp_path):
  with pytest.raises(ValueError, match=str(tmp_path)):
    results.take(str(tmp_path), str(tmp_path / 'docs'))


@pytest.mark.parametrize(
  'name',
  [
    pytest.param(x, marks=[pytest.mark.nightly] * (x != 'dose_host'))
    for x in NAMES
    if x not in ROUNDED
  ],
)
def test_scipy_and_statsmodels_find_the_same_in_the_runs(name):
  """Every difference, its interval, its p and what Holm makes of it."""
  multitest = pytest.importorskip(
    'statsmodels.stats.multitest', reason="pip install -e '.[dev]'"
  )
  report = archived(name)
  for arms, comparisons in settings(report):
    for measure in report['measures']:
      rows = [x for x in comparisons if x['measure'] == measure]
      by_size = {}
      for row in rows:
        a, b = (
          measured(arms[row[arm]], measure) for arm in ('arm', 'baseline')
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


@pytest.mark.parametrize('name', ROUNDED)
def test_rounded_runs_have_the_published_means(name):
  """Within what rounding each run to a tenth of a point can change."""
  report = archived(name)
  first = next(iter(report['measures']))
  for arms, comparisons in settings(report):
    values = {arm: measured(x, first) for arm, x in arms.items()}
    for arm, of_arm in arms.items():
      mean = np.nanmean(list(values[arm].values()))
      assert mean == pytest.approx(of_arm['measures'][first]['mean'], abs=5e-4)
    for row in comparisons:
      if row['measure'] == first:
        a, b = values[row['arm']], values[row['baseline']]
        gap = np.nanmean([a[seed] - b.get(seed, np.nan) for seed in a])
        assert gap == pytest.approx(row['mean'], abs=1e-3)


def test_a_published_panel_has_the_hash_of_its_report():
  for name, report in REPORTS.items():
    if 'panel' in report:
      text = (FOLDER / 'panels' / f'{name}.json').read_text()
      assert panel.digest(json.loads(text)) == report['panel']


def test_a_page_with_a_panel_has_the_protocol_of_its_study():
  """To the word and in order: its folder is gone on with by that study."""
  for name, report in REPORTS.items():
    if 'panel' in report:
      study = study_run.load(f'configs/studies/{name}.py')
      protocol = json.loads(json.dumps(spec.protocol(study)))
      assert protocol == archived(name)['protocol'], name


@pytest.mark.parametrize('name', NAMES)
def test_verdicts_follow_from_what_was_found(name):
  for claim in archived(name)['claims']:
    if x := claim['found']:
      want = paired.verdict(x['low'], x['high'], claim['claimed'], x['holm'])
      assert claim['verdict'] == want, claim['text']
