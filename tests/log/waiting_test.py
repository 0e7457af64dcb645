"""Work that takes long says how far it is, and yields what it was given."""

import logging

from agentrl.log import waiting as progress


def test_a_line_whenever_the_time_is_over(caplog):
  clock = iter([0, 4, 9, 10, 10, 15, 21, 21]).__next__
  with caplog.at_level(logging.INFO):
    got = list(progress.logged('abcde', 'Read %d of 5', clock=clock))
  assert got == list('abcde')
  assert [r.getMessage() for r in caplog.records] == [
    'Read 3 of 5, still going on.',
    'Read 5 of 5, still going on.',
  ]
