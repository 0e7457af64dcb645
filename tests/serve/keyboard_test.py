"""Lines and arrow keys from a terminal, lines from a pipe."""

import io
import os
import sys

import pytest

from agentrl.serve import keyboard


def typed(characters: str) -> tuple[list[str], str]:
  source, out = io.StringIO(characters), io.StringIO()
  return list(keyboard.typed(lambda: source.read(1), out)), out.getvalue()


def test_arrows_are_words_at_once_and_lines_end_with_enter():
  lines, echo = typed('\x1b[Aleft\n\n\x1b[D\x1b[Zq\r')
  assert lines == ['up', 'left', '', 'left', 'q']
  assert echo == 'up\nleft\n\nleft\nq\n'


def test_what_is_erased_is_not_typed_and_control_d_ends():
  assert typed('\x7fupp\x7f\n\x04down\n')[0] == ['up']
  assert typed('unfinished')[0] == []


def test_lines_of_a_pipe_are_as_they_are():
  assert list(keyboard.lines(io.StringIO('up\r\n\x1b[A\nq'))) == [
    'up',
    '\x1b[A',
    'q',
  ]


@pytest.mark.skipif(sys.platform == 'win32', reason='needs a pseudo-terminal')
def test_a_terminal_is_as_it_was_afterwards():
  import pty
  import termios

  ours, theirs = pty.openpty()
  with os.fdopen(theirs, 'r', newline='') as stream:
    before = termios.tcgetattr(stream)
    os.write(ours, b'\x1b[Cok\n')
    lines = keyboard.lines(stream, io.StringIO())
    assert [next(lines), next(lines)] == ['right', 'ok']
    assert termios.tcgetattr(stream)[3] != before[3]
    lines.close()
    assert termios.tcgetattr(stream) == before
  os.close(ours)
