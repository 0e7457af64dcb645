"""Lines that a person types; arrow keys are words where there is a terminal."""

import sys
from collections.abc import Iterator
from typing import TextIO

ARROWS = {'A': 'up', 'B': 'down', 'C': 'right', 'D': 'left'}
_ESCAPE, _END, _ERASE = '\x1b', '\x04', ('\x7f', '\b')


def lines(stream: TextIO, out: TextIO = sys.stdout) -> Iterator[str]:
  """Yields lines; an arrow key is a line of its own if stream is a terminal."""
  if not stream.isatty() or sys.platform == 'win32':
    yield from (line.rstrip('\r\n') for line in stream)
    return
  import termios  # of Unix alone
  import tty

  before = termios.tcgetattr(stream)
  try:
    tty.setcbreak(stream, termios.TCSADRAIN)  # what was typed ahead counts
    yield from typed(lambda: stream.read(1), out)
  finally:
    termios.tcsetattr(stream, termios.TCSADRAIN, before)


def typed(read, out: TextIO) -> Iterator[str]:
  """Yields lines of single characters, which are echoed to `out`.

  Args:
    read: () -> the next character, '' at the end
  """
  line = ''
  while (char := read()) and char != _END:
    if char == _ESCAPE:
      if read() == '[' and (word := ARROWS.get(read())):
        print(word, file=out, flush=True)
        yield word
        line = ''
    elif char in '\r\n':
      print(file=out, flush=True)
      yield line
      line = ''
    elif char in _ERASE:
      if line:
        print('\b \b', end='', file=out, flush=True)
      line = line[:-1]
    elif char.isprintable():
      print(char, end='', file=out, flush=True)
      line += char
