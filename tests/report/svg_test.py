"""What of the pictures is not a matter of looks."""

from agentrl.report import svg
from tests.report import made_up_report


def test_ticks_are_round_and_inside():
  assert svg.ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1]
  assert svg.ticks(0, 15_000, 5) == [0, 5_000, 10_000, 15_000]
  assert svg.ticks(-3, 7) == [-2, 0, 2, 4, 6]
  assert svg.ticks(2, 2) == [2]


def test_looks_are_told_apart():
  found = svg.looks(made_up_report.made_up())
  assert list(found) == list(made_up_report.ARMS)
  assert len({look[1:] for look in found.values()}) == len(found)
