"""Curves against plain Python, and a page with everything in it."""

import datetime
import html.parser
import json
import math
import re
import subprocess
import sys

import numpy as np
import pytest

from agentrl.configs import grpo, oprl
from agentrl.report.dashboard import charts as charts_lib
from agentrl.report.dashboard import curves as curves_lib
from agentrl.report.dashboard import page
from agentrl.report.dashboard.curves import Piece
from agentrl.run import workdir
from tests.report import made_up_run

NAMES = ('eval/success', 'loss/total', 'policy/grad_norm', 'rollout/return')


@pytest.fixture(scope='module')
def paths(tmp_path_factory):
  """Two runs; the second is still going on and its last line is torn."""
  root = tmp_path_factory.mktemp('runs')
  made_up_run.write(root / 'one', oprl.get_config('tiny'), rl=60)
  c = grpo.get_config('tiny')
  c.role.policy.lr = 1e-3
  made_up_run.write(root / 'two', c, rl=25)
  with (root / 'two' / 'metrics.jsonl').open('a') as f:
    f.write('{"step": 186, "phase": "rl", "loss/to')
  return [str(root / 'one'), str(root / 'two')]


@pytest.fixture(scope='module')
def runs(paths):
  return curves_lib.read(paths)


class Reader(html.parser.HTMLParser):
  """Notes tags that are not closed in order, and what would be loaded."""

  def __init__(self, text):
    super().__init__()
    self.open, self.loaded, self.captions = [], [], []
    self.feed(text)
    self.close()

  def handle_starttag(self, tag, attrs):
    self.loaded += [v for k, v in attrs if k in ('src', 'href') and v[0] != '#']
    if tag not in ('meta', 'br'):
      self.open.append(tag)

  def handle_endtag(self, tag):
    assert self.open.pop() == tag

  def handle_data(self, data):
    if self.open[-1:] == ['figcaption']:
      self.captions.append(data)


def test_every_metric_has_its_picture_in_its_group(runs):
  text = page.page(runs)
  read = Reader(text)
  assert not read.open
  assert not read.loaded
  assert '<script' not in text
  names = {name for run in runs for row in run.rows for name in row}
  left_out = {'step', 'phase', 'eval/low', 'eval/high', 'prm/never'}
  assert sorted(read.captions) == sorted(names - left_out)
  assert 'prm/never' in text
  assert 'eval/low' in text
  sections = re.findall(r'<section id="([^"]+)"', text)
  assert sections[:6] == [
    'runs', 'of-eval', 'of-rollout', 'of-loss', 'of-policy', 'of-prm'
  ]  # fmt: skip
  assert sections[-3:] == ['of-time', 'config', 'numbers']
  assert read.captions[0] == 'eval/success'


def test_a_run_without_a_row_yet(runs, tmp_path):
  workdir.keep_config(grpo.get_config('tiny'), str(tmp_path))
  text = page.page([*runs, *curves_lib.read([str(tmp_path)])])
  assert '0 of 172' in text
  assert not Reader(text).open
  alone = page.page(curves_lib.read([str(tmp_path)]))
  assert '<figure' not in alone


def test_what_differs_is_told_of_every_run(runs):
  text = page.page(runs)
  table = text[text.index('id="config"') : text.index('id="numbers"')]
  found = dict(
    re.findall(r'<th scope="row">(.*?)</th><td>(.*?</td><td>.*?)</td>', table)
  )
  assert found['role.policy.lr'] == '0.0006</td><td>0.001'
  assert found['method'] == 'oprl</td><td>grpo'
  assert 'seed' not in found
  same = page.page([runs[0], runs[0]._replace(name='again')])
  assert 'Nothing.' in same
  assert 'id="config"' not in page.page(runs[:1])


def test_a_page_tells_what_it_is_of(runs):
  now = datetime.datetime(2030, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
  hostile = runs[0]._replace(name='<script>alert(1)</script>')
  text = page.page([hostile], smooth=7, again=30, now=now)
  assert '2030-01-02 03:04:05 UTC' in text
  assert 'mean of the last 7 steps' in text
  assert '<meta http-equiv="refresh" content="30">' in text
  assert '<script' not in text
  assert '"refresh"' not in page.page(runs)
  assert '220 of 172' in text  # more steps than asked for: as it is


def test_pieces_end_where_a_stage_does(runs):
  run = runs[0]
  sft, rl = curves_lib.pieces(run, 'loss/total')
  assert (sft.phase, rl.phase) == ('sft', 'rl')
  assert sft.x.tolist() == list(range(1, 161))
  assert rl.x.tolist() == list(range(161, 221))
  assert math.isnan(rl.y[4])
  assert curves_lib.begin_of_rl(run) == 161
  (clock,) = curves_lib.pieces(run, 'eval/success', 'time/seconds')
  told = [r['time/seconds'] / 60 for r in run.rows if r['phase'] == 'eval']
  np.testing.assert_allclose(clock.x, told)
  assert curves_lib.pieces(run, 'no/such') == []


def test_means_against_plain_python():
  rng = np.random.default_rng(0)
  y = rng.normal(size=40)
  y[[3, 17]] = math.nan
  got = curves_lib.smooth(Piece('rl', np.arange(40.0), y), 6)
  kept = [v for v in y if not math.isnan(v)]
  want = [np.mean(kept[max(0, i - 5) : i + 1]) for i in range(len(kept))]
  np.testing.assert_allclose(got.y, want, atol=1e-12)
  assert len(got.x) == 38
  assert 3.0 not in got.x


def test_lines_stop_at_gaps():
  y = np.array([math.nan, 1, 2, math.nan, math.nan, 3, math.nan])
  found = list(curves_lib.strokes(Piece('rl', np.arange(7.0), y)))
  assert [x.tolist() for x in found] == [[[1, 1], [2, 2]], [[5, 3]]]


def test_thinning_keeps_every_extreme():
  rng = np.random.default_rng(1)
  points = np.stack([np.arange(5000.0), rng.normal(size=5000)], axis=1)
  got = curves_lib.thin(points, 50)
  assert len(got) <= 100
  assert np.all(np.diff(got[:, 0]) > 0)
  for part in np.split(points, 50):
    here = got[(got[:, 0] >= part[0, 0]) & (got[:, 0] <= part[-1, 0])]
    assert here[:, 1].min() == part[:, 1].min()
    assert here[:, 1].max() == part[:, 1].max()
  np.testing.assert_array_equal(curves_lib.thin(points[:100], 50), points[:100])


@pytest.mark.parametrize(
  ('paths', 'found'),
  [
    (['/r/a'], ['a']),
    (['/r/a', '/r/b'], ['a', 'b']),
    (['/r/x/0', '/r/y/0'], ['x/0', 'y/0']),
    (['/r/x/0', '/s/x/0'], ['r/x/0', 's/x/0']),
    (['/x/0', '/s/x/0'], ['x/0', 's/x/0']),
  ],
)
def test_names_tell_runs_apart(paths, found):
  assert curves_lib.names(paths) == found


@pytest.mark.parametrize(
  ('most', 'power'),
  [(0, 0), (0.5, 0), (9999, 0), (25_000, 3), (3e-4, -6), (2e-3, -3), (5e7, 6)],
)
def test_units(most, power):
  assert charts_lib.unit(np.array([0, -most])).power == power


def test_labels_tell_neighbours_apart():
  assert charts_lib.labels([0, 0.5, 1]) == ['0.0', '0.5', '1.0']
  assert charts_lib.labels([-0.02, 0]) == ['−0.02', '0.00']
  assert charts_lib.labels([0, 5000, 10_000]) == ['0', '5k', '10k']
  assert charts_lib.labels([3]) == ['3']


def test_mistakes_are_one_sentence(paths, tmp_path):
  with pytest.raises(ValueError, match='given twice'):
    curves_lib.read([paths[0], paths[0] + '/'])
  with pytest.raises(ValueError, match='not the folder of a run'):
    curves_lib.read([str(tmp_path)])
  with pytest.raises(ValueError, match='--smooth=-1'):
    page.page(curves_lib.read(paths), smooth=-1)


@pytest.mark.slow
def test_the_command(paths, tmp_path):
  def run(*words):
    return subprocess.run(
      [sys.executable, '-m', 'experiments.dashboard', *words],
      capture_output=True,
      text=True,
      check=False,
    )

  out = tmp_path / 'x.html'
  done = run(*paths, f'--out={out}', '--x=time/seconds')
  assert done.returncode == 0, done.stderr
  assert done.stdout == f'2 run(s) in {out}\n'
  assert '>minutes<' in out.read_text()
  for words, told in [
    ([], 'RUN is missing'),
    ([paths[0], '--out=no/such/x.html'], 'there is no folder'),
    ([str(tmp_path)], 'not the folder of a run'),
  ]:
    done = run(*words)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith('error: ')
    assert told in done.stderr


def test_the_numbers_of_the_page_are_those_of_the_rows(runs):
  """The last of a row's values, as JSON wrote it."""
  text = page.page(runs)
  table = text[text.index('id="numbers"') :]
  cells = re.search(r'>rollout/return</th><td>(.*?)</td><td>(.*?)<', table)
  for told, run in zip(cells.groups(), runs, strict=True):
    last = [r['rollout/return'] for r in run.rows if 'rollout/return' in r][-1]
    assert json.loads(told) == pytest.approx(last, rel=1e-4)
