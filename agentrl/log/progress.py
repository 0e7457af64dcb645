"""Progress of a run in words: what it does, how far it is, the time left.

  with Progress() as progress:
    progress.begin('compiling the rollout')
    progress.update('rl', 3, 32, {'rollout/success': 0.4})

In a log, a line comes at most every EVERY seconds, and at least: a thread says
what is still going on. On a terminal, the line of an update replaces the last.
"""

import collections
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

EVERY = 10.0  # seconds
RECENT = 10  # steps whose pace predicts the time left
SHOW = {  # metric -> its name and format in a line
  'rollout/success': ('success', '.1%'),
  'eval/success': ('held-out success', '.1%'),
  'loss/total': ('loss', '.3g'),
}


def duration(seconds: float) -> str:
  """Spells a time: 42 s, 3.5 min, 2.0 h."""
  if seconds < 90:
    return f'{seconds:.0f} s'
  if seconds < 90 * 60:
    return f'{seconds / 60:.1f} min'
  return f'{seconds / 3600:.1f} h'


def seconds_left(marks: Sequence[tuple[int, float]], end: int) -> float | None:
  """Predicts seconds to step `end` from (step, clock) marks; None for one."""
  (first, began), (last, now) = marks[0], marks[-1]
  if last == first:
    return None
  return (end - last) * (now - began) / (last - first)


def line(
  phase: str,
  step: int,
  end: int,
  scalars: Mapping[str, float],
  left: float | None = None,
) -> str:
  """Writes 'rl 5/32  success 40.6%  loss 0.002  24 s left'."""
  words = [f'{phase} {step}/{end}']
  words += [
    f'{name} {scalars[metric]:{spec}}'
    for metric, (name, spec) in SHOW.items()
    if metric in scalars
  ]
  if left is not None and step < end:
    words.append(f'{duration(left)} left')
  return '  '.join(words)


class Progress:
  """Writes progress to a stream; where inactive (process > 0), nothing."""

  def __init__(
    self,
    *,
    active: bool = True,
    stream: TextIO | None = None,
    every: float = EVERY,
    clock: Callable[[], float] = time.monotonic,
  ):
    """Takes the stream, stderr by default, and the seconds between lines."""
    self._active, self._every, self._clock = active, every, clock
    self._stream = sys.stderr if stream is None else stream
    self._replaces = active and self._stream.isatty()
    self._open = False  # the line on the terminal has no end yet
    self._last, self._what, self._since = -every, '', 0.0
    self._phase, self._unwritten = '', ''  # the line of an update
    self._marks: collections.deque = collections.deque(maxlen=RECENT)
    self._lock, self._done = threading.Lock(), threading.Event()

  def __enter__(self) -> 'Progress':
    if self._active:
      threading.Thread(target=self._watch, daemon=True).start()
    return self

  def __exit__(self, *error) -> None:
    self._done.set()
    with self._lock:
      self._end_line()

  def say(self, text: str) -> None:
    """Writes a line of its own."""
    with self._lock:
      self._end_line()
      self._write(f'{text}\n')

  def begin(self, what: str, *, quiet: bool = False) -> None:
    """Takes what is done from now on, and says it unless it is quiet."""
    with self._lock:
      self._what, self._since = what, self._clock()
    if not quiet:
      self.say(what)

  def update(
    self, phase: str, step: int, end: int, scalars: Mapping[str, float]
  ) -> None:
    """Reports that `step` of `end` is done, if it is time for a line."""
    with self._lock:
      now = self._clock()
      if phase != self._phase:
        self._phase = phase
        self._marks.clear()
      self._marks.append((step, now))
      due = now - self._last >= self._every or step == end
      left = seconds_left(self._marks, end)
      text = line(phase, step, end, scalars, left)
      if self._replaces:
        self._write(f'\r\x1b[K{text}')
        self._open = True
      elif due:
        self._write(f'{text}\n')
      else:
        self._unwritten = text

  def beat(self) -> None:
    """Writes the last update, or what goes on, after EVERY silent seconds."""
    with self._lock:
      now = self._clock()
      if now - self._last < self._every:
        return
      if self._unwritten:
        self._write(f'{self._unwritten}\n')
      elif self._what:
        self._end_line()
        self._write(f'still {self._what}, {duration(now - self._since)}\n')

  def _watch(self) -> None:
    while not self._done.wait(min(1.0, self._every)):
      self.beat()

  def _end_line(self) -> None:
    if self._open:
      self._write('\n')
      self._open = False

  def _write(self, text: str) -> None:
    self._unwritten = ''
    if self._active:
      self._stream.write(text)
      self._stream.flush()
      self._last = self._clock()


SILENT = Progress(active=False)
