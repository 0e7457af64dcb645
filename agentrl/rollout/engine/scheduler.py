"""Who sits in which slot: continuous batching, before any device is asked.

A line is a conversation that asks for one message after another; a slot holds
what a model has read of one. What a line is about to read is compared with
what stands in slots, token by token, and only what differs is left to read: a
next turn costs its new tokens, the members of a group share their prompt, a
fork shares its past, and a line that was evicted is rebuilt, all by the same
rule. Slots are taken from lines that wait for their world when no other is
left. What is to be copied between slots is said here, and done in engine.py.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple


@dataclasses.dataclass
class Slot:
  """A place in the cache."""

  line: int | None = None  # who sits here
  tokens: list[int] = dataclasses.field(default_factory=list)  # read, in order
  since: int = 0  # epoch of the parameters that read the oldest of them


@dataclasses.dataclass
class Line:
  """A conversation, from its latest question on."""

  want: list[int]  # context and message so far
  begun: int  # tokens of the context
  slot: int | None = None
  busy: bool = True  # it has a message to write


class Taken(NamedTuple):
  """A line has sat down."""

  slot: int
  source: int | None  # the slot that is to be copied here first
  shared: int  # tokens that need not be read for it
  evicted: bool  # somebody who waits for a world had to go


class Seats:
  """Lines in slots."""

  def __init__(self, slots: int, near: int):
    """`near`: tokens that are not worth waiting for others to read them."""
    self._near = near
    self._slots = [Slot() for _ in range(slots)]
    self._lines: dict[int, Line] = {}
    self._queue: list[int] = []  # lines that wait for a slot, in order
    self._epoch = 0  # of parameters: how many there were before

  @property
  def busy(self) -> bool:
    """Whether anybody has a message to write."""
    return any(line.busy for line in self._lines.values())

  @property
  def lengths(self) -> list[int]:
    """Tokens that stand in each slot."""
    return [len(slot.tokens) for slot in self._slots]

  def sitting(self) -> dict[int, Line]:
    """{name: line} of those who have a slot and a message, by slots."""
    return {
      s.line: self._lines[s.line]
      for s in self._slots
      if s.line is not None and self._lines[s.line].busy
    }

  def pending(self, line: Line) -> int:
    """Tokens to read before it can speak; the last one is read in speaking."""
    return len(line.want) - 1 - len(self._slots[line.slot].tokens)

  def renew(self) -> None:
    """Other parameters: nobody begins from what another has read before."""
    self._epoch += 1

  def ask(self, name: int, context: Sequence[int]) -> None:
    """The line has a message to write after this context.

    Raises:
      ValueError: it has not finished the one before.
    """
    known = self._lines.get(name)
    if known and known.busy:
      raise ValueError(f'line {name} is still speaking; wait for its message')
    slot = known.slot if known else None
    line = self._lines[name] = Line(list(context), len(context), slot)
    if slot is None:
      self._queue.append(name)
    else:
      held = self._slots[slot]
      del held.tokens[_shared(held, line.want) :]
      if not held.tokens:
        held.since = self._epoch

  def drop(self, name: int) -> None:
    """The line is over; what it has read may serve others."""
    gone = self._lines.pop(name, None)
    if gone is None:
      return
    if gone.slot is not None:
      self._slots[gone.slot].line = None
    if name in self._queue:
      self._queue.remove(name)

  def seat(self) -> list[Taken]:
    """Slots for lines that wait, as long as there are any; in their order."""
    taken, waiting = [], []
    for at, name in enumerate(self._queue):
      line = self._lines[name]
      free = [i for i, s in enumerate(self._slots) if self._available(s)]
      if not free:
        waiting += self._queue[at:]
        break
      donor, shared = self._donor(line.want)
      if self._mates(line.want) > max(shared, self._near):
        waiting.append(name)  # somebody is reading what it can share
        continue
      taken.append(self._take(name, donor, shared, free))
    self._queue = waiting
    return taken

  def read(self, line: Line, most: int) -> list[int]:
    """The next tokens that a line reads, `most` at most."""
    have = len(self._slots[line.slot].tokens)
    new = line.want[have : min(have + most, len(line.want) - 1)]
    self._slots[line.slot].tokens += new
    return new

  def write(self, line: Line, new: list[int]) -> None:
    """The line has written these; all but the newest have been read, too."""
    self._slots[line.slot].tokens += [line.want[-1], *new[:-1]]
    line.want += new

  def end(self, line: Line, size: int) -> None:
    """The line's message is over, and these are its tokens."""
    del line.want[line.begun + size :]
    del self._slots[line.slot].tokens[len(line.want) - 1 :]
    line.busy = False

  def _available(self, slot: Slot) -> bool:
    return slot.line is None or not self._lines[slot.line].busy

  def _donor(self, want: list[int]) -> tuple[int | None, int]:
    """The slot that has read most of this, and how many tokens it shares."""
    best, most = None, 0
    for i, slot in enumerate(self._slots):
      if slot.tokens and slot.since == self._epoch:
        shared = _shared(slot, want)
        if shared > most:
          best, most = i, shared
    return best, most

  def _mates(self, want: list[int]) -> int:
    """What lines that are reading now will soon have in common with this."""
    reading = (
      line.want[: line.begun]
      for line in self._lines.values()
      if line.busy and line.slot is not None and self.pending(line)
    )
    return max((common(other, want) for other in reading), default=0)

  def _take(self, name, donor, shared, free: list[int]) -> Taken:
    """Seats a line, in the donor's own place if nobody needs it there."""
    empty = [i for i in free if self._slots[i].line is None]
    if donor in empty:
      at = donor
    else:
      # Whose tokens are fewest is rebuilt most cheaply.
      at = min(empty or free, key=lambda i: len(self._slots[i].tokens))
    slot, line = self._slots[at], self._lines[name]
    evicted = slot.line is not None
    if evicted:
      self._lines[slot.line].slot = None
    slot.tokens = [] if donor is None else self._slots[donor].tokens[:shared]
    slot.since = self._epoch
    slot.line, line.slot = name, at
    return Taken(at, donor if donor != at else None, shared, evicted)


def _shared(slot: Slot, want: list[int]) -> int:
  """How much of this the slot has read; one token is always left to read."""
  return min(common(slot.tokens, want), len(want) - 1)


def common(a: Sequence[int], b: Sequence[int]) -> int:
  """How many tokens two lists begin with alike."""
  size = min(len(a), len(b))
  if a[:size] == b[:size]:
    return size
  low, high = 0, size  # alike up to low, not up to high
  while high - low > 1:
    middle = (low + high) // 2
    if a[low:middle] == b[low:middle]:
      low = middle
    else:
      high = middle
  return low
