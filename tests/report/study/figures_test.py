"""Pictures of a made-up comparison."""

import collections

import pytest

from agentrl.report.study import page as study_page
from tests.report import made_up_report
from tests.report.study import parsed_page


@pytest.fixture(scope='module')
def report():
  return made_up_report.made_up()


@pytest.fixture(scope='module')
def page(report):
  return parsed_page.Page(study_page.page(report))


def test_curves_dots_and_rates_are_drawn(page):
  drawn = collections.Counter(v for t, k, v in page.attributes if t == 'svg')
  assert drawn['chart'] == 3 * 2 * 2
  assert drawn['strip c0'] >= 3
  assert sum(n for v, n in drawn.items() if v.startswith('tuning')) == 2 * 11
