"""The page of a made-up comparison, as a parser and as a browser see it."""

import itertools
import json
import re

import pytest

from agentrl.report.study import page as study_page
from tests import errors
from tests.report import chromium, made_up_report
from tests.report.study import parsed_page

WIDTHS = (1280, 375)
LOOK = """(() => {
  const root = document.documentElement;
  const sizes = s => [...document.querySelectorAll(s)].filter(
    e => e.checkVisibility()).map(e => e.getBoundingClientRect());
  return {
    width: window.innerWidth, scroll: root.scrollWidth,
    title: document.querySelector('h1').textContent,
    tables: sizes('table').length, lines: sizes('.chart .line').length,
    chart: Math.min(...sizes('.chart').map(r => r.width)),
    text: Math.min(...sizes('.chart text').map(r => r.height)),
    boxes: Math.max(...sizes('.scroll').map(r => r.right)),
  };
})()"""


@pytest.fixture(scope='module')
def report():
  return made_up_report.made_up()


@pytest.fixture(scope='module')
def text(report):
  return study_page.page(report)


@pytest.fixture(scope='module')
def page(text):
  return parsed_page.Page(text)


def test_every_arm_stands_in_every_table(page):
  labels = list(made_up_report.LABELS.values())
  for heads in (['mean', 'runs', 'tokens'], ['IQM', 'sd of runs']):
    found = page.lines('arm', *heads)
    assert len(found) == 3 * (1 if 'runs' in heads else 4)
    for body in found:
      assert len(body) == len(labels)
      for line, label in zip(body, labels, strict=True):
        assert line[0].startswith(label)
  for body in page.lines('arm', 'seed 0', 'seed 9'):
    assert [len(line) for line in body] == [11] * len(labels)
    assert body[3][10] == 'failed'
    assert body[5][4].endswith('†')
  assert len(page.lines('arm', 'mean score')[0]) == 4 * len(labels)


def test_every_comparison_is_a_line(page, report):
  bodies = page.lines('arm − baseline', 'P(improvement)', 'Holm p')
  setting = report['envs']['sparse']['settings']['tuned']
  assert len(bodies) == 3 * 4
  assert sum(map(len, bodies[:4])) == len(setting['comparisons'])
  first = setting['comparisons'][0]
  assert bodies[0][0][0] == 'OPRL − RLOO'
  assert f'{100 * first["mean"]:+.1f}'.replace('-', '−') in bodies[0][0]


def test_each_claim_has_its_verdict_in_words(page, report):
  words = page.text
  for claim in report['claims']:
    assert claim['text'] in words
  assert {c['verdict'] for c in report['claims']} == set(study_page.VERDICTS)
  for verdict in study_page.VERDICTS:
    style = f'chip v-{verdict.replace(" ", "-")}'
    # Once in the tally, once at the claim.
    assert page.attributes.count(('span', 'class', style)) == 2


def test_nothing_is_loaded_and_nothing_runs(text):
  assert not re.search(r'https?://|<script|<link|<img|@import|url\(', text)
  found = parsed_page.Page(text).attributes
  assert [v for _, k, v in found if k in ('src', 'srcset', 'data')] == []
  links = {v for _, k, v in found if k == 'href'}
  assert {v for v in links if not v.startswith('#')} == {'report.json'}
  ids = {v for _, k, v in found if k == 'id'}
  assert {v[1:] for v in links if v.startswith('#')} == ids
  assert not [k for _, k, _ in found if k.startswith('on')]


def test_a_finished_page_is_not_reloaded(text):
  assert 'http-equiv="refresh"' not in text


def replaced(x, text):
  """The same report with every free text replaced."""
  if isinstance(x, dict):
    kept = ('verdict', 'part', 'arm', 'baseline', 'env', 'setting', 'measure')
    return {k: v if k in kept else replaced(v, text) for k, v in x.items()}
  if isinstance(x, list):
    return [replaced(v, text) for v in x]
  return text if isinstance(x, str) else x


@pytest.mark.slow
def test_all_text_is_escaped(report):
  evil = '<script>alert("1")</script>\'&amp;'
  found = parsed_page.Page(study_page.page(replaced(report, evil)))
  assert found.count['script'] == 0
  assert evil in found.text
  assert not [v for _, _, v in found.attributes if v and '\n' in v]
  key = {**made_up_report.small(), 'versions': {evil: evil}}
  assert parsed_page.Page(study_page.page(key)).count['script'] == 0


def test_both_files_are_written_and_read_back(tmp_path):
  report = made_up_report.small()
  folder = tmp_path / 'new' / 'one'
  study_page.write(report, folder)
  assert sorted(p.name for p in folder.iterdir()) == [
    'report.html',
    'report.json',
  ]
  again = json.loads((folder / 'report.json').read_text())
  text = (folder / 'report.html').read_text(encoding='utf-8')
  assert study_page.page(again) == text


def test_a_number_that_is_none_becomes_null(tmp_path):
  odd = {
    **made_up_report.small(),
    'spent': {'run_seconds': float('nan'), 'runs': 1},
  }
  study_page.write(odd, tmp_path)
  again = json.loads((tmp_path / 'report.json').read_text())
  assert again['spent'] == {'run_seconds': None, 'runs': 1}
  assert 'nan' not in parsed_page.Page(study_page.page(odd)).text.split()


def test_another_format_is_refused(tmp_path):
  with errors.raises(ValueError, 'format 2'):
    study_page.write({'format': 2}, tmp_path)
  assert not list(tmp_path.iterdir())


def emptied(x, empty):
  """Each report with one part of it left out, at any depth."""
  named = ('format', 'alpha', 'pairs', 'arm', 'baseline', 'measure')
  if isinstance(x, dict):
    for key in x:
      if key not in named:
        yield {**x, key: empty(x[key])}
      for inside in emptied(x[key], empty):
        yield {**x, key: inside}
  elif isinstance(x, list) and x and isinstance(x[0], dict):
    for inside in emptied(x[0], empty):
      yield [inside, *x[1:]]


def drawn_once(draw):
  figures = {}

  def once(*args):
    key = repr(args)
    if key not in figures:
      figures[key] = draw(*args)
    return figures[key]

  return once


@pytest.mark.parametrize(
  'empty',
  [
    pytest.param(lambda x: None, id='null'),
    pytest.param(lambda x: type(x)(), id='empty', marks=pytest.mark.slow),
  ],
)
def test_missing_parts_are_left_out(empty, monkeypatch):
  """Each key of a small report in turn: null, then {}, [], '' or 0."""
  for name in ('curves', 'grid'):  # a figure of the same numbers once
    drawn = drawn_once(getattr(study_page.figures, name))
    monkeypatch.setattr(study_page.figures, name, drawn)
  small = made_up_report.small()
  several = list(emptied(small, empty))
  assert len(several) > 80
  for one in several:
    parsed_page.Page(study_page.page(one))


def test_an_empty_report_is_a_page():
  found = parsed_page.Page(study_page.page({'format': 1, 'name': 'x'}))
  assert found.count['section'] == 0
  assert found.count['h1'] == 1


def sections(text: str) -> dict[str, str]:
  """The parts of a page by their ids, in order."""
  parts = re.split(r'<section id="([^"]+)">', text)[1:]
  return dict(zip(parts[::2], parts[1::2], strict=True))


def test_findings_come_first_and_checks_of_the_method_last():
  small = made_up_report.made_up(settings=('tuned',))
  check = {**small['claims'][0], 'arm': 'oprl_same', 'text': 'no difference'}
  small['claims'] = [check, *small['claims']]
  del small['envs']['dense']
  text = study_page.page(small)
  found = sections(text)
  assert next(iter(found)) == 'claims'
  assert list(found)[-2:] == ['checks', 'again']
  assert 'no difference' in found['checks']
  assert 'no difference' not in found['claims']
  assert study_page.CHECKS in found['checks']
  # The tally counts findings alone: each verdict is there once.
  assert '× 2' not in text


def test_tokens_in_step_with_environment_steps_are_one_picture():
  small = made_up_report.small()
  arms = small['envs']['sparse']['settings']['tuned']['arms']
  for arm in arms.values():
    tokens = arm['curve']['tokens']
    tokens['mean'] = [x + 0.1 for x in tokens['mean']]
  both = study_page.page(small).count('class="chart"')
  for arm in arms.values():
    arm['curve']['tokens']['mean'] = arm['curve']['env_steps']['mean']
  assert study_page.page(small).count('class="chart"') == both / 2


def test_one_setting_and_no_tuning():
  small = made_up_report.small()
  assert 'Tuning' in parsed_page.Page(study_page.page(small)).text
  small['envs']['sparse']['tuning'] = {}
  found = parsed_page.Page(study_page.page(small))
  assert 'Tuning' not in found.text
  assert 'all arms at the learning rate' not in found.text
  assert len(found.lines('arm', 'mean', 'tokens')) == 1


@pytest.fixture(scope='module')
def looked(text, tmp_path_factory):
  """(page, width) -> what a browser sees and says; `wide` is broken."""
  folder = tmp_path_factory.mktemp('page')
  (folder / 'report.html').write_text(text)
  wide = '<div style="width: 2000px">too wide</div><script>no.such()</script>'
  (folder / 'wide.html').write_text(text.replace('</main>', wide + '</main>'))
  found = {}
  with chromium.browser() as browser:
    for name, width in itertools.product(('report', 'wide'), WIDTHS):
      browser.size(width, 900)
      browser.do('Page.navigate', url='about:blank')
      browser.do('Page.navigate', url=f'file://{folder}/{name}.html')
      browser.wait("document.readyState === 'complete' && document.title")
      found[name, width] = browser.js(LOOK), [*browser.said]
      browser.said.clear()
  return found


@pytest.mark.parametrize('width', WIDTHS)
def test_tables_and_curves_are_seen(looked, width):
  found, said = looked['report', width]
  assert not said
  assert found['title'] == made_up_report.made_up()['title']
  assert found['width'] == width
  # Of each setting: arms, differences; readings; what is folded has no size.
  assert found['tables'] == 3 * 3 + 1
  assert found['lines'] == 3 * 2 * (6 + 7)
  assert found['chart'] > 0.4 * width
  assert found['text'] >= 11  # pixels


@pytest.mark.parametrize('width', WIDTHS)
def test_no_page_scrolls_sideways(looked, width):
  found, _ = looked['report', width]
  assert found['scroll'] <= width
  assert found['boxes'] <= width


@pytest.mark.parametrize('width', WIDTHS)
def test_what_is_broken_would_be_seen(looked, width):
  """It is too wide, and its script is not let run."""
  found, said = looked['wide', width]
  assert found['scroll'] > width
  assert said
