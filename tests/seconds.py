"""Which tests run, and where their time went: per folder, and the slowest ten.

Durations are of setup, call and teardown, summed over workers.
"""

import collections
from collections.abc import Iterable

import pytest

SLOWEST = 10


def pytest_terminal_summary(terminalreporter) -> None:
  """Prints the table where tests of several folders ran."""
  reports = [
    report
    for found in terminalreporter.stats.values()
    for report in found
    if isinstance(report, pytest.TestReport)
  ]
  folders = by_folder(reports)
  if len(folders) > 1:
    terminalreporter.section('seconds')
    for line in table(folders):
      terminalreporter.write_line(line)
    terminalreporter.section(f'slowest {SLOWEST}')
    for line in table(slowest(reports)):
      terminalreporter.write_line(line)


def expression(marks: str) -> str:
  """Returns `-m`, without slow tests unless it speaks of them."""
  if 'slow' in marks or 'nightly' in marks:
    return marks
  return f'({marks}) and not slow' if marks else 'not slow'


def by_folder(reports: Iterable) -> dict[str, float]:
  """Returns seconds of each folder below tests, the longest first."""
  total = collections.Counter()
  for report in reports:
    _, name, *rest = report.nodeid.partition('::')[0].split('/')
    total[name if rest else 'tests'] += report.duration
  return dict(total.most_common())


def slowest(reports: Iterable) -> dict[str, float]:
  total = collections.Counter()
  for report in reports:
    total[report.nodeid] += report.duration
  return dict(total.most_common(SLOWEST))


def table(seconds: dict[str, float]) -> list[str]:
  rows = [f'{x:7.1f}  {name}' for name, x in seconds.items()]
  return [*rows, f'{sum(seconds.values()):7.1f}  together']
