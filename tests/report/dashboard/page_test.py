"""Curves against plain Python, and a page with everything in it."""

import datetime
import html.parser
import json
import re
import subprocess
import sys

import numpy as np
import pytest

from agentrl.configs import grpo
from agentrl.report.dashboard import curves as curves_lib
from agentrl.report.dashboard import page
from agentrl.run import workdir
from tests import errors

NAMES = ('eval/success', 'loss/total', 'policy/grad_norm', 'rollout/return')


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
  left_out = {'step', 'phase', 'eval/ci_low', 'eval/ci_high', 'prm/never'}
  assert sorted(read.captions) == sorted(names - left_out)
  assert 'prm/never' in text
  assert 'eval/ci_low' in text
  sections = re.findall(r'<section id="([^"]+)"', text)
  assert sections[:6] == [
    'runs',
    'of-eval',
    'of-rollout',
    'of-loss',
    'of-policy',
    'of-prm',
  ]
  assert sections[-3:] == ['of-time', 'config', 'numbers']
  assert read.captions[0] == 'eval/success'


def test_what_never_changes_or_is_there_twice_is_a_line(runs):
  more = {'rollout/attempts': 32.0}
  rows = [
    row | more | {'rollout/twice': 2 * row['rollout/return']}
    if 'rollout/return' in row
    else row
    for row in runs[0].rows
  ]
  text = page.page([runs[0]._replace(rows=rows)])
  captions = Reader(text).captions
  assert 'rollout/return' in captions
  assert not {'rollout/attempts', 'rollout/twice'} & set(captions)
  assert 'Never changed: rollout/attempts = 32.' in text
  assert 'Drawn once: rollout/twice (as rollout/return).' in text
  assert 'mean sum of rewards of a trajectory (reward)' in text


def test_one_measurement_is_a_line_and_no_picture(runs):
  first = next(row for row in runs[0].rows if 'rollout/return' in row)
  rows = [
    row | {'rollout/once': 0.25} if row is first else row
    for row in runs[0].rows
  ]
  text = page.page([runs[0]._replace(rows=rows)])
  assert 'rollout/once' not in Reader(text).captions
  assert 'rollout/once = 0.25' in text
  both = page.page([runs[0]._replace(rows=rows), runs[1]])
  assert 'rollout/once' not in Reader(both).captions


NOTHING = {'eval/success': float('nan'), 'eval/ci_low': 0, 'eval/ci_high': 1}


@pytest.mark.parametrize(
  ('place', 'gone', 'more', 'left'),
  [
    (-1, '', NOTHING, [0, 1, 2]),
    (1, '', NOTHING, [2, 3]),
    (-1, 'eval/success', {}, [0, 1, 2]),
    (-1, 'eval/ci_low', {}, [0, 1, 2]),
  ],
)
def test_an_evaluation_without_a_score_has_no_interval(
  runs, place, gone, more, left
):
  """Of no episode the interval is [0, 1], which is not drawn."""
  places = [i for i, r in enumerate(runs[0].rows) if r['phase'] == 'eval'][:4]
  rows = list(runs[0].rows[: places[-1] + 1])
  (whole,) = page._band(runs[0]._replace(rows=rows), 'step')
  row = rows[places[place]]
  changed = {k: x for k, x in row.items() if k != gone} | more
  rows[places[place]] = changed
  (band,) = page._band(runs[0]._replace(rows=rows), 'step')
  np.testing.assert_array_equal(band, whole[left])


def test_seeds_of_one_config_are_a_mean(runs):
  other = runs[0]._replace(
    name='again', config=runs[0].config.copy_and_resolve_references()
  )
  other.config.seed = 1
  text = page.page([runs[0], other, runs[1]])
  legend = text[text.index('<ul class="legend">') :]
  legend = legend[: legend.index('</ul>')]
  assert 'oprl, mean of 2' in legend
  assert legend.count('<li>') == 2
  assert all(name in text for name in ('>one<', '>again<', '>two<'))
  assert 'the interval of success is one over seeds' in text


def test_a_run_without_a_row_yet(runs, tmp_path):
  workdir.keep_config(grpo.get_config('tiny'), str(tmp_path))
  text = page.page([*runs, *curves_lib.read([str(tmp_path)])])
  c = grpo.get_config('tiny')
  assert f'0 of {c.sft.steps + c.steps}' in text
  assert not Reader(text).open
  alone = page.page(curves_lib.read([str(tmp_path)]))
  assert '<figure' not in alone


@pytest.mark.slow
def test_what_differs_is_told_of_every_run(runs):
  text = page.page(runs)
  table = text[text.index('id="config"') : text.index('id="numbers"')]
  found = dict(
    re.findall(r'<th scope="row">(.*?)</th><td>(.*?</td><td>.*?)</td>', table)
  )
  rate = runs[0].config.role.policy.lr
  assert found['role.policy.lr'] == f'{rate:g}</td><td>0.001'
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
  c = runs[0].config
  assert (
    f'220 of {c.sft.steps + c.steps}' in text
  )  # more steps than asked for: as it is


def test_mistakes_are_one_sentence(paths, tmp_path):
  with pytest.raises(ValueError):
    curves_lib.read([paths[0], paths[0] + '/'])
  with pytest.raises(ValueError):
    curves_lib.read([str(tmp_path)])
  with errors.raises(ValueError, '--smooth -1'):
    page.page(curves_lib.read(paths), smooth=-1)


@pytest.mark.nightly
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
    (paths, '--out'),
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
