"""Continuous batching, the host's side: whose tokens stand in which slot.

A line is a conversation that asks for one message after another. What it is
about to read is compared with what stands in slots, token by token, and only
what differs is computed: a next turn costs its new tokens, the members of a
group share their prompt, a fork shares its past, and a line that was evicted
is rebuilt, all by the same rule. Slots are taken from lines that wait for
their world when no other is left.

  launch()   hands the device one round of work: chunks to read, then a burst
  land()     waits for it; -> the messages that it finished

Between the two the host is free. Tokens and log-probs of a message depend on
its line's context, its key and the parameters, not on who shares the batch.
"""

import dataclasses
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import jax
import numpy as np

from agentrl import mesh
from agentrl.nn import transformer
from agentrl.rollout import slots as slots_lib
from agentrl.rollout.slots import Writing

# Tokens, those read again elsewhere, slots taken away, rounds.
COUNTS = ('read', 'shared', 'written', 'lost', 'evicted', 'rounds')


@dataclasses.dataclass(frozen=True)
class Sizes:
  """What is compiled for.

  capacity: tokens of a line, its message included
  burst: tokens that are written between two looks of the host
  chunk: tokens that a slot reads at a time
  lanes: slots that read beside those that write; more of them: all do
  """

  slots: int
  capacity: int
  burst: int = 8
  chunk: int = 128
  lanes: int = 4

  def __post_init__(self):
    for name, value in vars(self).items():
      if value < 1:
        raise ValueError(f'{name}={value} of an engine must be at least 1')

  @property
  def chunks(self) -> tuple[int, ...]:
    """Widths that reading is compiled for."""
    return tuple(sorted({max(1, self.chunk // 8), self.chunk}))


class How(NamedTuple):
  """How a message is drawn, and where it ends."""

  key: np.ndarray  # [2] u32: token t is drawn by fold_in(key, t)
  budget: int  # tokens at most, end of turn included
  temperature: float = 1.0  # 0: the likeliest
  top_k: int = 0  # 0: all
  top_p: float = 1.0
  # Tokens so far -> how many of them are the message, 0 while it goes on.
  stop: Callable[[Sequence[int]], int] | None = None


class Spoken(NamedTuple):
  """A finished message; all lists are of its tokens."""

  line: int
  ids: list[int]
  logp: list[float]  # of the distribution sampled from, nats
  entropy: list[float]  # of that distribution, nats
  version: list[int]  # of the policy that wrote the token


@dataclasses.dataclass
class _Slot:
  line: int | None = None  # who sits here
  tokens: list[int] = dataclasses.field(default_factory=list)  # read, in order
  since: int = 0  # epoch of the parameters that read the oldest of them


@dataclasses.dataclass
class _Line:
  want: list[int]  # context and message so far
  how: How
  slot: int | None
  busy: bool  # it has a message to write
  begun: int  # tokens of the context
  spoken: Spoken


# Engines may run in several threads, and all devices of a mesh must be given
# their programs in one order: those of others are waited for inside of them.
_ORDER = threading.Lock()


class Engine:
  """Lines in slots. Not for use by several threads."""

  def __init__(self, shape: transformer.Shape, sizes: Sizes, *, eot: int):
    if shape.positions and sizes.capacity > shape.positions:
      raise ValueError(
        f'a slot of {sizes.capacity} tokens is longer than the'
        f' {shape.positions} positions of the model; raise model.positions or'
        ' lower rollout.context'
      )
    rows = 1
    if mesh.active():
      rows = mesh.pieces('batch', jax.sharding.get_abstract_mesh().shape)
    if sizes.slots % rows:
      raise ValueError(
        f'rollout.slots={sizes.slots} is not divisible by the {rows} devices'
        f' that share rows; set it to {-(-sizes.slots // rows) * rows}'
      )
    lanes = -(-sizes.lanes // rows) * rows
    self._sizes = dataclasses.replace(sizes, lanes=lanes)
    self._eot = eot
    self._run = slots_lib.programs(
      shape, sizes.slots, sizes.capacity, eot, sizes.burst
    )
    self._slots = [_Slot() for _ in range(sizes.slots)]
    self._lines: dict[int, _Line] = {}
    self._queue: list[int] = []  # lines that wait for a slot, in order
    self._given = self._params = self._cache = self._written = None
    self._version = 0
    self._epoch = 0  # of parameters: how many there were before
    self.counts = dict.fromkeys(COUNTS, 0)

  @property
  def busy(self) -> bool:
    """Whether a round would do anything."""
    return any(line.busy for line in self._lines.values())

  def swap(self, params, version: int) -> None:
    """Other parameters from the next round on.

    Lines that are under way keep what they have read; no line begins from
    what another parameter has read.
    """
    self._version = version
    if params is self._given:
      return
    self._given = params
    with _ORDER:
      self._params = self._run.prepare(params)
      if self._cache is None:
        self._cache = self._run.empty()
    self._epoch += 1

  def ask(self, line: int, context: Sequence[int], how: How) -> None:
    """The line's next message, after this context (at least one token).

    Raises:
      ValueError: there is no room for it, or the line has not finished.
    """
    room = self._sizes.capacity - len(context)
    if not context or how.budget < 1 or room < how.budget:
      raise ValueError(
        f'a message of {how.budget} tokens after {len(context)} does not fit a'
        f' slot of {self._sizes.capacity}; ask for 1 to {max(room, 0)} after at'
        ' least one'
      )
    known = self._lines.get(line)
    if known and known.busy:
      raise ValueError(f'line {line} is still speaking; wait for its message')
    slot = known.slot if known else None
    spoken = Spoken(line, [], [], [], [])
    self._lines[line] = _Line(
      list(context), how, slot, True, len(context), spoken
    )
    if slot is None:
      self._queue.append(line)
    else:
      self._keep(self._slots[slot], list(context))

  def drop(self, line: int) -> None:
    """The line is over; what it has read may serve others."""
    gone = self._lines.pop(line, None)
    if gone is None:
      return
    if gone.slot is not None:
      self._slots[gone.slot].line = None
    if line in self._queue:
      self._queue.remove(line)

  def launch(self) -> None:
    """Hands the device chunks to read and a burst to write."""
    if self._params is None:
      raise ValueError('the engine has no parameters yet; swap some in')
    with _ORDER:
      self._seat()
      # Who is ready waits for the others while they are more.
      while self._read_once() and self._behind():
        self._seat()
      self._write()

  def land(self) -> list[Spoken]:
    """What was launched, done: the messages that ended."""
    if self._written is None:
      return []
    live, version, out = self._written
    self._written = None
    out = jax.device_get(out)
    self.counts['rounds'] += 1
    return [s for i in live if (s := self._hear(i, version, out))]

  def taken(self) -> dict[str, int]:
    """What was done since this was called last."""
    counts, self.counts = self.counts, dict.fromkeys(COUNTS, 0)
    return counts

  # Who sits where.

  def _seat(self) -> None:
    """Slots for lines that wait, as long as there are any."""
    waiting = []
    for at, name in enumerate(self._queue):
      line = self._lines[name]
      free = [i for i, s in enumerate(self._slots) if self._available(s)]
      if not free:
        waiting += self._queue[at:]
        break
      donor, shared = self._donor(line.want)
      if self._mates(line.want) > max(shared, self._sizes.chunks[0]):
        waiting.append(name)  # somebody is reading what it can share
        continue
      self._take(name, donor, shared, free)
    self._queue = waiting

  def _available(self, slot: _Slot) -> bool:
    return slot.line is None or not self._lines[slot.line].busy

  def _donor(self, want: list[int]) -> tuple[int | None, int]:
    """The slot that has read most of this, and how many tokens it shares."""
    best, most = None, 0
    for i, slot in enumerate(self._slots):
      if slot.tokens and slot.since == self._epoch:
        shared = min(common(slot.tokens, want), len(want) - 1)
        if shared > most:
          best, most = i, shared
    return best, most

  def _mates(self, want: list[int]) -> int:
    """What lines that are reading now will soon have in common with this."""
    reading = (
      line.want[: line.begun]
      for line in self._lines.values()
      if line.busy and line.slot is not None and self._pending(line)
    )
    return max((common(other, want) for other in reading), default=0)

  def _take(self, name, donor, shared, free: list[int]) -> None:
    """Seats a line, in the donor's own place if nobody needs it there."""
    empty = [i for i in free if self._slots[i].line is None]
    if donor in empty:
      at = donor
    else:
      # Whose tokens are fewest is rebuilt most cheaply.
      at = min(empty or free, key=lambda i: len(self._slots[i].tokens))
    slot = self._slots[at]
    if slot.line is not None:
      self._lines[slot.line].slot = None
      self.counts['evicted'] += 1
    line = self._lines[name]
    if donor is None:
      slot.tokens, slot.since = [], self._epoch
    elif donor != at:
      source, target = np.array([donor]), np.array([at])
      self._cache = self._run.copy(self._cache, source, target)
      slot.tokens = self._slots[donor].tokens[:shared]
      slot.since = self._epoch
    self.counts['shared'] += shared
    slot.line, line.slot = name, at
    self._keep(slot, line.want)

  def _keep(self, slot: _Slot, want: list[int]) -> None:
    """Of what the slot has read, what begins this too; one token is read."""
    keep = min(common(slot.tokens, want), len(want) - 1)
    del slot.tokens[keep:]
    if not keep:
      slot.since = self._epoch

  # Reading and writing.

  def _pending(self, line: _Line) -> int:
    """Tokens to read before it can speak; the last one is read in speaking."""
    return len(line.want) - 1 - len(self._slots[line.slot].tokens)

  def _seated(self) -> list[_Line]:
    return [
      self._lines[s.line]
      for s in self._slots
      if s.line is not None and self._lines[s.line].busy
    ]

  def _behind(self) -> bool:
    pending = [self._pending(line) > 0 for line in self._seated()]
    return sum(pending) * 2 > len(pending)

  def _read_once(self) -> bool:
    """One chunk for some slots; False if nobody has anything to read."""
    sizes = self._sizes
    readers = [line for line in self._seated() if self._pending(line)]
    if not readers:
      return False
    n = sizes.slots
    wide = len(readers) > sizes.lanes or sizes.lanes >= n
    lanes = n if wide else sizes.lanes
    longest = max(self._pending(line) for line in readers)
    width = next((c for c in sizes.chunks if c >= longest), sizes.chunks[-1])
    slot = np.arange(n) if wide else np.full(lanes, n)
    start = np.zeros(lanes, np.int32)
    tokens = np.zeros((lanes, width), np.int32)
    if wide:  # where nobody reads, what is written behind the end is of no use
      start[:] = [len(s.tokens) for s in self._slots]
    for lane, line in enumerate(readers):
      at = line.slot if wide else lane
      have = len(self._slots[line.slot].tokens)
      new = line.want[have : min(have + width, len(line.want) - 1)]
      slot[at], start[at] = line.slot, have
      tokens[at, : len(new)] = new
      self._slots[line.slot].tokens += new
      self.counts['read'] += len(new)
    slot = slot.astype(np.int32)
    self._cache = self._run.read(self._params, self._cache, slot, tokens, start)
    return True

  def _write(self) -> None:
    speakers = [line for line in self._seated() if not self._pending(line)]
    if not speakers:
      return
    n = self._sizes.slots
    w = Writing(
      live=np.zeros(n, bool),
      last=np.zeros(n, np.int32),
      filled=np.array([len(s.tokens) for s in self._slots], np.int32),
      said=np.zeros(n, np.int32),
      budget=np.ones(n, np.int32),
      key=np.zeros((n, 2), np.uint32),
      temperature=np.ones(n, np.float32),
      top_k=np.zeros(n, np.int32),
      top_p=np.ones(n, np.float32),
    )
    for line in speakers:
      i, how = line.slot, line.how
      w.live[i], w.last[i] = True, line.want[-1]
      w.said[i], w.budget[i] = len(line.want) - line.begun, how.budget
      w.key[i], w.temperature[i] = how.key, how.temperature
      w.top_k[i], w.top_p[i] = how.top_k, how.top_p
    self._cache, out = self._run.write(self._params, self._cache, w)
    self._written = [line.slot for line in speakers], self._version, out

  def _hear(self, i: int, version: int, out) -> Spoken | None:
    """Takes a slot's new tokens; its message if that is finished."""
    slot = self._slots[i]
    if slot.line is None:  # dropped while it spoke
      return None
    line = self._lines[slot.line]
    count = int(out.count[i])
    new = out.tokens[i, :count].tolist()
    # All but the newest token have been read by now.
    slot.tokens += [line.want[-1], *new[:-1]]
    line.want += new
    said = line.spoken
    said.ids.extend(new)
    said.logp.extend(out.logp[i, :count].tolist())
    said.entropy.extend(out.entropy[i, :count].tolist())
    said.version.extend([version] * count)
    self.counts['written'] += count
    return self._ended(line)

  def _ended(self, line: _Line) -> Spoken | None:
    said, how = line.spoken, line.how
    over = said.ids[-1] == self._eot or len(said.ids) >= how.budget
    cut = how.stop(said.ids) if how.stop else 0
    if not (over or cut):
      return None
    if cut and cut < len(said.ids):
      self.counts['lost'] += len(said.ids) - cut
      for x in (said.ids, said.logp, said.entropy, said.version):
        del x[cut:]
      del line.want[line.begun + cut :]
      self._keep(self._slots[line.slot], line.want)
    line.busy = False
    return said


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


def texts(stops: Iterable[str], decode: Callable[[Sequence[int]], str]):
  """A `How.stop`: the message ends with the token that completes a text."""
  stops = tuple(stops)

  def found(ids: Sequence[int]) -> bool:
    text = decode(ids)
    return any(stop in text for stop in stops)

  def stop(ids: Sequence[int]) -> int:
    if not found(ids):
      return 0
    low, high = 0, len(ids)  # not yet, already
    while high - low > 1:
      middle = (low + high) // 2
      low, high = (low, middle) if found(ids[:middle]) else (middle, high)
    return high

  return stop
