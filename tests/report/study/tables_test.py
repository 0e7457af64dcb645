"""Tables of a made-up comparison."""

import pytest

from agentrl.report.study import page, tables
from tests.report import made_up_report


@pytest.fixture
def report():
  return made_up_report.made_up(settings=('tuned',))


def test_what_was_not_measured_is_a_dash(report):
  claim = next(c for c in report['claims'] if not c['found'])
  lines = tables.markdown(report).splitlines()
  row = next(line for line in lines if claim['text'] in line)
  assert row.endswith('| — | — | not measured |')


def test_checks_of_the_method_come_last(report):
  """A claim about a control says nothing of a method."""
  check = {**report['claims'][0], 'arm': 'oprl_same', 'text': 'no difference'}
  text = tables.markdown({**report, 'claims': [check, *report['claims']]})
  findings, checks = text.split(f'{page.CHECKS}:')
  assert 'no difference' in checks
  assert 'no difference' not in findings
  assert all(c['text'] in findings for c in report['claims'])
  assert page.CHECKS not in tables.markdown(report)


def test_one_run_has_no_interval(report):
  arm = report['envs']['sparse']['settings']['tuned']['arms']['oprl']
  arm['measures']['area'] = {'n': 1, 'mean': 0.5}
  row = next(x for x in tables.markdown(report).splitlines() if 'OPRL' in x)
  assert '[' in row
  (line,) = [
    x for x in tables.markdown(report).splitlines() if x.startswith('| OPRL | ')
  ][:1]
  assert '| 50.0 |' in line
