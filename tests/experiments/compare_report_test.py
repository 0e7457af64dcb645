"""The page of a made-up comparison, as a parser and as a browser see it."""

import collections
import html.parser
import json
import re

import made_up_report
import pytest

from experiments import compare_numbers as numbers
from experiments import compare_pictures as pictures
from experiments import compare_report, markup

VOID = {'br', 'meta'}


class Page(html.parser.HTMLParser):
  """Checks the nesting while it reads; keeps tables, links and text."""

  def __init__(self, text: str):
    super().__init__()
    self.open, self.tables, self.attributes = [], [], []
    self.count, self.words = collections.Counter(), []
    self.feed(text)
    self.close()
    assert not self.open, f'never closed: {self.open}'

  def handle_starttag(self, tag, attrs):
    self.count[tag] += 1
    self.attributes += [(tag, *a) for a in attrs]
    if tag not in VOID:
      self.open.append(tag)
    if tag == 'table':
      self.tables.append([])
    if tag == 'tr':
      self.tables[-1].append([])
    if tag in ('td', 'th'):
      self.tables[-1][-1].append('')

  def handle_endtag(self, tag):
    assert self.open.pop() == tag, tag

  def handle_data(self, data):
    if self.open and self.open[-1] != 'style':
      self.words.append(data)
    if 'td' in self.open or 'th' in self.open:
      self.tables[-1][-1][-1] += data

  @property
  def text(self) -> str:
    return ' '.join(' '.join(self.words).split())

  def lines(self, *heads: str) -> list[list[list[str]]]:
    """The bodies of the tables with such heads."""
    found = [t for t in self.tables
             if set(heads) <= set(t[0])]  # fmt: skip
    return [t[1:] for t in found]


@pytest.fixture(scope='module')
def report():
  return made_up_report.made_up()


@pytest.fixture(scope='module')
def page(report):
  return Page(compare_report.page(report))


def test_every_arm_stands_in_every_table(page):
  labels = list(made_up_report.LABELS.values())
  for heads in (['mean', 'runs', 'tokens'], ['IQM', 'sd of runs']):
    found = page.lines('arm', *heads)
    assert len(found) == 3 * (1 if 'runs' in heads else 4)
    for body in found:
      assert len(body) == len(labels)
      for line, label in zip(body, labels, strict=True):
        assert line[0].startswith(label)
  assert len(page.lines('arm', 'seed')[0]) == 10 * len(labels)
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
  assert {c['verdict'] for c in report['claims']} == set(
    compare_report._VERDICTS
  )
  for verdict in compare_report._VERDICTS:
    style = f'chip v-{verdict.replace(" ", "-")}'
    # Once in the tally, once at the claim.
    assert page.attributes.count(('span', 'class', style)) == 2


def test_curves_dots_and_rates_are_drawn(page):
  drawn = collections.Counter(v for t, k, v in page.attributes if t == 'svg')
  assert drawn['chart'] == 3 * 2 * 2
  assert drawn['strip c0'] >= 3
  assert sum(n for v, n in drawn.items() if v.startswith('tuning')) == 2 * 11


def test_nothing_is_loaded_and_nothing_runs(report):
  text = compare_report.page(report)
  assert not re.search(r'https?://|<script|<link|<img|@import|url\(', text)
  found = Page(text).attributes
  assert [v for _, k, v in found if k in ('src', 'srcset', 'data')] == []
  links = {v for _, k, v in found if k == 'href'}
  assert {v for v in links if not v.startswith('#')} == {'report.json'}
  ids = {v for _, k, v in found if k == 'id'}
  assert {v[1:] for v in links if v.startswith('#')} == ids
  assert not [k for _, k, _ in found if k.startswith('on')]


def replaced(x, text):
  """The same report with every free text replaced."""
  if isinstance(x, dict):
    kept = ('verdict', 'part', 'arm', 'baseline', 'env', 'setting', 'measure')
    return {k: v if k in kept else replaced(v, text) for k, v in x.items()}
  if isinstance(x, list):
    return [replaced(v, text) for v in x]
  return text if isinstance(x, str) else x


def test_all_text_is_escaped(report):
  evil = '<script>alert("1")</script>\'&amp;'
  found = Page(compare_report.page(replaced(report, evil)))
  assert found.count['script'] == 0
  assert evil in found.text
  assert not [v for _, _, v in found.attributes if v and '\n' in v]
  key = replaced({**report, 'versions': {evil: evil}}, 'x')
  assert Page(compare_report.page(key)).count['script'] == 0


def test_both_files_are_written_and_read_back(report, tmp_path):
  folder = tmp_path / 'new' / 'one'
  compare_report.write(report, folder)
  assert sorted(p.name for p in folder.iterdir()) == [
    'report.html', 'report.json'
  ]  # fmt: skip
  again = json.loads((folder / 'report.json').read_text())
  text = (folder / 'report.html').read_text(encoding='utf-8')
  assert compare_report.page(again) == text == compare_report.page(report)


def test_a_number_that_is_none_becomes_null(report, tmp_path):
  odd = {**report, 'spent': {'wall_seconds': float('nan'), 'runs': 1}}
  compare_report.write(odd, tmp_path)
  again = json.loads((tmp_path / 'report.json').read_text())
  assert again['spent'] == {'wall_seconds': None, 'runs': 1}
  assert 'nan' not in Page(compare_report.page(odd)).text.split()


def test_another_format_is_refused(tmp_path):
  with pytest.raises(ValueError, match=r'format=2 .* run the comparison again'):
    compare_report.write({'format': 2}, tmp_path)
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


@pytest.mark.parametrize(
  'empty', [lambda x: None, lambda x: type(x)()], ids=['null', 'empty']
)
def test_missing_parts_are_left_out(empty):
  """Each key of a small report in turn: null, then {}, [], '' or 0."""
  small = made_up_report.small()
  several = list(emptied(small, empty))
  assert len(several) > 80
  for one in several:
    Page(compare_report.page(one))


def test_an_empty_report_is_a_page():
  found = Page(compare_report.page({'format': 1, 'name': 'x'}))
  assert found.count['section'] == 0
  assert found.count['h1'] == 1


def test_one_setting_and_no_tuning():
  found = Page(compare_report.page(made_up_report.small()))
  assert 'Tuning' not in found.text
  assert 'all arms at the learning rate' not in found.text
  assert len(found.lines('arm', 'mean', 'tokens')) == 1


def test_numbers_have_one_format():
  m = numbers.Measure('area', 'points', 100.0, 1)
  assert m.show(0.0812, sign=True) == '+8.1'
  assert m.show(-0.0812) == '−8.1'
  assert m.show(-0.0001) == '0.0'
  assert m.interval(-0.01, 0.02, sign=True) == '[−1.0, +2.0]'
  assert m.show(None) == m.interval(None, 1.0) == '–'
  assert m.show(float('inf')) == numbers.number(float('nan')) == '–'
  assert [numbers.p_value(p) for p in (0.00099, 0.0123, 1.0, None)] == [
    '< 0.001', '0.012', '1.000', '–'
  ]  # fmt: skip
  assert [numbers.rate(x) for x in (3e-4, 1.25e-5, 1.0)] == [
    '3e-4', '1.25e-5', '1e0'
  ]  # fmt: skip
  assert [numbers.count(x) for x in (810, 15_000, 999_999, 3.2e5)] == [
    '810', '15k', '1M', '320k'
  ]  # fmt: skip
  assert [numbers.duration(s) for s in (12, 812, 9000)] == [
    '12 s', '13.5 min', '2.5 h'
  ]  # fmt: skip


def test_ticks_are_round_and_inside():
  assert pictures.ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1]
  assert pictures.ticks(0, 15_000, 5) == [0, 5_000, 10_000, 15_000]
  assert pictures.ticks(-3, 7) == [-2, 0, 2, 4, 6]
  assert pictures.ticks(2, 2) == [2]


def test_markup_escapes_and_closes():
  made = markup.element('p', 'a < b', markup.Markup('<br>'), None, class_='"')
  assert made == '<p class="&quot;">a &lt; b<br></p>'
  assert markup.element('meta', http_equiv='x') == '<meta http-equiv="x">'


def test_looks_are_told_apart(report):
  found = pictures.looks(report)
  assert list(found) == list(made_up_report.ARMS)
  assert len({look[1:] for look in found.values()}) == len(found)
