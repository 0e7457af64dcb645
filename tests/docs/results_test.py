"""docs/RESULTS.md says what its reports say."""

import copy

import pytest

from docs.generate import results


def test_the_page_has_the_tables_of_its_reports():
  with open('docs/RESULTS.md', encoding='utf-8') as f:
    page = f.read()
  reports = results.reports('docs')
  assert reports
  for name, report in reports.items():
    assert results.put(page, name, results.tables(report)) == page
    assert f'results/{name}.html' in page


def test_what_was_not_measured_is_a_dash():
  report = copy.deepcopy(next(iter(results.reports('docs').values())))
  claim = report['claims'][0]
  claim |= {'found': None, 'verdict': 'not measured'}
  lines = results.tables(report).splitlines()
  row = next(line for line in lines if claim['text'] in line)
  assert row.endswith('| — | — | not measured |')


def test_a_page_without_marks_is_refused():
  with pytest.raises(ValueError, match='lacks the marks <!-- x -->'):
    results.put('words', 'x', 'table')
