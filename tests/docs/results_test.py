"""docs/RESULTS.md says what its reports say."""

import pytest

from agentrl.report.study import tables
from docs.generate import results


def test_the_page_has_the_tables_of_its_reports():
  with open('docs/RESULTS.md', encoding='utf-8') as f:
    page = f.read()
  reports = results.reports('docs')
  assert reports
  for name, report in reports.items():
    assert results.put(page, name, tables.markdown(report)) == page
    assert f'results/{name}.html' in page


def test_a_page_without_marks_is_refused():
  with pytest.raises(ValueError, match='lacks the marks <!-- x -->'):
    results.put('words', 'x', 'table')
