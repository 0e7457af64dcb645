"""Continuous-batching scheduler: assigns conversations to KV-cache slots.

A sequence is a conversation that requests one message after another. Its
context is compared with the tokens cached in slots, and only the difference is
prefilled: one rule covers the new tokens of a turn, the prompt shared by a
group, the past shared by a fork, and rebuilding a sequence that was evicted or
whose parameters were replaced. When all slots are taken, sequences that wait
for their environment are evicted. Host side only: engine.py copies between
slots.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple


@dataclasses.dataclass
class Slot:
  """Row of the KV cache."""

  sequence: int | None = None  # its owner
  tokens: list[int] = dataclasses.field(default_factory=list)  # in the cache
  since: int = 0  # epoch of the parameters that computed the oldest of them
  adapter: int = 0  # that computed them


@dataclasses.dataclass
class Request:
  """Pending message of a sequence."""

  want: list[int]  # context and message so far
  begun: int  # tokens of the context
  adapter: int = 0  # of the base model; 0 where there is one
  slot: int | None = None
  busy: bool = True  # it has a message to write
  dropped: int = 0  # first tokens that a swap of parameters dropped from a slot

  @property
  def held(self) -> int:
    """The slot of a scheduled request."""
    assert self.slot is not None
    return self.slot

  @property
  def spoken(self) -> int:
    """Tokens of its message so far."""
    return len(self.want) - self.begun


class SlotAssignment(NamedTuple):
  """Assignment of a slot to a sequence."""

  slot: int
  source: int | None  # slot to copy from first
  shared: int  # tokens that need no prefill
  evicted: bool  # an idle sequence lost the slot


class Scheduler:
  """Sequences, waiting queue and slots."""

  def __init__(self, slots: int, near: int):
    """Takes near: most shared tokens not worth waiting for another to cache."""
    self._near = near
    self._slots = [Slot() for _ in range(slots)]
    self._requests: dict[int, Request] = {}
    self._queue: list[int] = []  # sequences that wait for a slot, in order
    self._epoch = 0  # of parameters: how many there were before

  @property
  def busy(self) -> bool:
    """Whether any sequence has a pending message."""
    return any(request.busy for request in self._requests.values())

  @property
  def lengths(self) -> list[int]:
    """Number of tokens cached in each slot."""
    return [len(slot.tokens) for slot in self._slots]

  def scheduled(self) -> dict[int, Request]:
    """Returns scheduled requests by sequence, in order of slots."""
    return {
      s.sequence: self._requests[s.sequence]
      for s in self._slots
      if s.sequence is not None and self._requests[s.sequence].busy
    }

  def pending(self, request: Request) -> int:
    """Counts tokens to prefill; the decoder reads the last context token."""
    return len(request.want) - 1 - len(self._slots[request.held].tokens)

  def renew(self) -> None:
    """Stops sharing cached prefixes, after new parameters."""
    self._epoch += 1

  def drop(self) -> None:
    """Empties all slots, so that everything is prefilled by new parameters.

    Sequences with a message to write queue again, before those that wait
    already, with the tokens that they have of it.
    """
    self.renew()
    held = [slot.sequence for slot in self._slots if slot.sequence is not None]
    for sequence in held:
      request = self._requests[sequence]
      cached = len(self._slots[request.held].tokens)
      request.dropped, request.slot = max(request.dropped, cached), None
    busy = [sequence for sequence in held if self._requests[sequence].busy]
    self._queue = busy + self._queue
    self._slots = [Slot() for _ in self._slots]

  def submit(
    self, sequence: int, context: Sequence[int], adapter: int = 0
  ) -> None:
    """Requests the sequence's next message after this context.

    Raises:
      ValueError: its previous message is unfinished.
    """
    before = self._requests.get(sequence)
    if before and before.busy:
      raise ValueError(
        f'sequence {sequence} must finish its message before the next one'
      )
    slot = before.slot if before else None
    request = Request(list(context), len(context), adapter, slot)
    if before and before.dropped:
      kept = common(before.want, request.want)
      request.dropped = min(before.dropped, kept)
    self._requests[sequence] = request
    if slot is None:
      self._queue.append(sequence)
    else:
      held = self._slots[slot]
      del held.tokens[_shared(held, request) :]
      if not held.tokens:
        held.since, held.adapter = self._epoch, adapter

  def cancel(self, sequence: int) -> None:
    """Ends the sequence; its cached prefix stays available."""
    gone = self._requests.pop(sequence, None)
    if gone is None:
      return
    if gone.slot is not None:
      self._slots[gone.slot].sequence = None
    if sequence in self._queue:
      self._queue.remove(sequence)

  def assign_slots(self) -> list[SlotAssignment]:
    """Assigns free slots to waiting sequences, in order."""
    taken, waiting = [], []
    for at, sequence in enumerate(self._queue):
      request = self._requests[sequence]
      free = [
        i
        for i, slot in enumerate(self._slots)
        if slot.sequence is None or not self._requests[slot.sequence].busy
      ]
      if not free:
        waiting += self._queue[at:]
        break
      donor, shared = self._donor(request)
      if self._being_prefilled(request) > max(shared, self._near):
        waiting.append(sequence)  # a prefix it can share is being prefilled
        continue
      taken.append(self._take(sequence, donor, shared, free))
    self._queue = waiting
    return taken

  def read(self, request: Request, most: int) -> list[int]:
    """Takes the next tokens to prefill, `most` at most."""
    have = len(self._slots[request.held].tokens)
    new = request.want[have : min(have + most, len(request.want) - 1)]
    self._slots[request.held].tokens += new
    return new

  def write(self, request: Request, new: list[int]) -> None:
    """Appends decoded tokens; all but the newest are cached."""
    self._slots[request.held].tokens += [request.want[-1], *new[:-1]]
    request.want += new

  def end(self, request: Request, size: int) -> None:
    """Ends the sequence's message after `size` tokens."""
    del request.want[request.begun + size :]
    del self._slots[request.held].tokens[len(request.want) - 1 :]
    request.busy, request.dropped = False, 0

  def _donor(self, request: Request) -> tuple[int | None, int]:
    """Finds the slot with the longest shared prefix, and its length."""
    best, most = None, 0
    for i, slot in enumerate(self._slots):
      if slot.tokens and slot.since == self._epoch:
        shared = _shared(slot, request)
        if shared > most:
          best, most = i, shared
    return best, most

  def _being_prefilled(self, request: Request) -> int:
    """Returns the longest prefix shared with pending prefills, in tokens."""
    reading = (
      x.want[: x.begun]
      for x in self._requests.values()
      if x.busy and x.slot is not None and self.pending(x)
      if x.adapter == request.adapter
    )
    return max((common(other, request.want) for other in reading), default=0)

  def _take(self, sequence, donor, shared, free: list[int]) -> SlotAssignment:
    """Assigns a slot, the donor itself if unowned."""
    empty = [i for i in free if self._slots[i].sequence is None]
    if donor in empty:
      at = donor
    else:
      # The one with the fewest tokens is the cheapest to rebuild.
      at = min(empty or free, key=lambda i: len(self._slots[i].tokens))
    slot, request = self._slots[at], self._requests[sequence]
    evicted = slot.sequence is not None
    if evicted:
      self._requests[slot.sequence].slot = None
    slot.tokens = [] if donor is None else self._slots[donor].tokens[:shared]
    slot.since, slot.adapter = self._epoch, request.adapter
    slot.sequence, request.slot = sequence, at
    return SlotAssignment(at, donor if donor != at else None, shared, evicted)


def _shared(slot: Slot, request: Request) -> int:
  """Returns the shared prefix length, less one token for the decoder."""
  if slot.adapter != request.adapter:
    return 0
  return min(common(slot.tokens, request.want), len(request.want) - 1)


def common(a: Sequence[int], b: Sequence[int]) -> int:
  """Returns the length of the longest common prefix of two lists."""
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
