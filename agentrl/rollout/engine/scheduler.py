"""Continuous-batching scheduler: assigns conversations to KV-cache slots.

A line is a conversation that requests one message after another. Its context
is compared with the tokens cached in slots, and only what differs is
prefilled: a next turn costs its new tokens, the members of a group share their
prompt, a fork shares its past, and an evicted line is rebuilt, all by the same
rule. With no free slot left, lines that wait for their environment are
evicted. Host side only: engine.py does the copies between slots.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple


@dataclasses.dataclass
class Slot:
  """A row of the KV cache."""

  line: int | None = None  # its owner
  tokens: list[int] = dataclasses.field(default_factory=list)  # in the cache
  since: int = 0  # epoch of the parameters that computed the oldest of them


@dataclasses.dataclass
class Request:
  """The pending message of a line."""

  want: list[int]  # context and message so far
  begun: int  # tokens of the context
  slot: int | None = None
  busy: bool = True  # it has a message to write


class Taken(NamedTuple):
  """A slot assigned to a line."""

  slot: int
  source: int | None  # slot to copy from first
  shared: int  # tokens that need no prefill
  evicted: bool  # an idle line lost the slot


class Scheduler:
  """Lines, the queue of those that wait, and slots."""

  def __init__(self, slots: int, near: int):
    """`near`: shared tokens too few to wait for another line to cache them."""
    self._near = near
    self._slots = [Slot() for _ in range(slots)]
    self._lines: dict[int, Request] = {}
    self._queue: list[int] = []  # lines that wait for a slot, in order
    self._epoch = 0  # of parameters: how many there were before

  @property
  def busy(self) -> bool:
    """True if any line has a pending message."""
    return any(line.busy for line in self._lines.values())

  @property
  def lengths(self) -> list[int]:
    """Tokens cached in each slot."""
    return [len(slot.tokens) for slot in self._slots]

  def sitting(self) -> dict[int, Request]:
    """{name: line} of the lines with a slot and a pending message, by slots."""
    return {
      s.line: self._lines[s.line]
      for s in self._slots
      if s.line is not None and self._lines[s.line].busy
    }

  def pending(self, line: Request) -> int:
    """Tokens to prefill; the last of the context is left to the decoder."""
    return len(line.want) - 1 - len(self._slots[line.slot].tokens)

  def renew(self) -> None:
    """New parameters: prefixes cached before are no longer shared."""
    self._epoch += 1

  def submit(self, name: int, context: Sequence[int]) -> None:
    """Requests the line's next message, after this context.

    Raises:
      ValueError: it has not finished the one before.
    """
    before = self._lines.get(name)
    if before and before.busy:
      raise ValueError(f'line {name} is still speaking; wait for its message')
    slot = before.slot if before else None
    line = self._lines[name] = Request(list(context), len(context), slot)
    if slot is None:
      self._queue.append(name)
    else:
      held = self._slots[slot]
      del held.tokens[_shared(held, line.want) :]
      if not held.tokens:
        held.since = self._epoch

  def cancel(self, name: int) -> None:
    """Ends the line; its prefix stays available to others."""
    gone = self._lines.pop(name, None)
    if gone is None:
      return
    if gone.slot is not None:
      self._slots[gone.slot].line = None
    if name in self._queue:
      self._queue.remove(name)

  def seat(self) -> list[Taken]:
    """Assigns free slots to waiting lines, in their order."""
    taken, waiting = [], []
    for at, name in enumerate(self._queue):
      line = self._lines[name]
      free = [
        i
        for i, slot in enumerate(self._slots)
        if slot.line is None or not self._lines[slot.line].busy
      ]
      if not free:
        waiting += self._queue[at:]
        break
      donor, shared = self._donor(line.want)
      if self._mates(line.want) > max(shared, self._near):
        waiting.append(name)  # a prefix it can share is being prefilled
        continue
      taken.append(self._take(name, donor, shared, free))
    self._queue = waiting
    return taken

  def read(self, line: Request, most: int) -> list[int]:
    """Takes the next tokens to prefill, `most` at most."""
    have = len(self._slots[line.slot].tokens)
    new = line.want[have : min(have + most, len(line.want) - 1)]
    self._slots[line.slot].tokens += new
    return new

  def write(self, line: Request, new: list[int]) -> None:
    """Appends decoded tokens; all but the newest are cached, too."""
    self._slots[line.slot].tokens += [line.want[-1], *new[:-1]]
    line.want += new

  def end(self, line: Request, size: int) -> None:
    """Ends the line's message after `size` tokens."""
    del line.want[line.begun + size :]
    del self._slots[line.slot].tokens[len(line.want) - 1 :]
    line.busy = False

  def _donor(self, want: list[int]) -> tuple[int | None, int]:
    """Slot with the longest shared prefix, and its length in tokens."""
    best, most = None, 0
    for i, slot in enumerate(self._slots):
      if slot.tokens and slot.since == self._epoch:
        shared = _shared(slot, want)
        if shared > most:
          best, most = i, shared
    return best, most

  def _mates(self, want: list[int]) -> int:
    """Longest prefix shared with a line that is being prefilled, in tokens."""
    reading = (
      line.want[: line.begun]
      for line in self._lines.values()
      if line.busy and line.slot is not None and self.pending(line)
    )
    return max((common(other, want) for other in reading), default=0)

  def _take(self, name, donor, shared, free: list[int]) -> Taken:
    """Assigns a slot, the donor itself if that is unowned."""
    empty = [i for i in free if self._slots[i].line is None]
    if donor in empty:
      at = donor
    else:
      # The one with the fewest tokens is the cheapest to rebuild.
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
  """Length of the shared prefix; one token is always left for the decoder."""
  return min(common(slot.tokens, want), len(want) - 1)


def common(a: Sequence[int], b: Sequence[int]) -> int:
  """Length of the longest common prefix of two lists."""
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
