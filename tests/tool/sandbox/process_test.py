"""What is read of a run; it needs no sandbox, which not every system has."""

import os
import time

import pytest

from agentrl.tool.sandbox import process as sandbox_process


def _read(most, *pieces, closed=True, seconds=60.0):
  """Of a pipe into which the pieces were written."""
  read, write = os.pipe()
  try:
    for piece in pieces:
      os.write(write, piece)
    if closed:
      os.close(write)
    with os.fdopen(read, 'rb') as pipe:
      return sandbox_process._read(pipe, time.monotonic() + seconds, most)
  finally:
    if not closed:
      os.close(write)


@pytest.mark.parametrize(
  ('printed', 'want'),
  [
    (b'', (b'', '')),
    (b'a' * 10, (b'a' * 10, '')),
    (b'a' * 11, (b'a' * 10, 'output')),
    (b'ab' * 2000, (b'ab' * 5, 'output')),
  ],
)
def test_too_much_output_is_cut_and_a_fault(printed, want):
  assert _read(10, printed) == want


def test_what_stays_open_is_read_until_its_time_is_over():
  assert _read(10, b'abc', closed=False, seconds=0.05) == (b'abc', 'time')


def test_too_much_is_told_before_the_pipe_is_closed():
  assert _read(2, b'abc', closed=False) == (b'ab', 'output')
