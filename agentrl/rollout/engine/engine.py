"""Continuous batching, the host's side: what the device does in a round.

Lines, conversations that ask for one message after another, sit in slots
(scheduler.py). Those that have tokens to read do so by chunks; the others
write.

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
from agentrl.rollout.engine import programs
from agentrl.rollout.engine.programs import Writing
from agentrl.rollout.engine.scheduler import Line, Seats

# Tokens read, found in a slot instead, written, written behind the end of a
# message; lines that lost their slot; rounds.
COUNTS = 'read', 'shared', 'written', 'lost', 'evicted', 'rounds'


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
    self._run = programs.programs(
      shape, sizes.slots, sizes.capacity, eot, sizes.burst
    )
    self._seats = Seats(sizes.slots, sizes.chunks[0])
    self._asked: dict[int, tuple[How, Spoken]] = {}  # of every line
    self._given = self._params = self._cache = self._written = None
    self._version = 0
    self.counts = dict.fromkeys(COUNTS, 0)

  @property
  def busy(self) -> bool:
    """Whether a round would do anything."""
    return self._seats.busy

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
    self._seats.renew()

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
    self._seats.ask(line, context)
    self._asked[line] = how, Spoken(line, [], [], [], [])

  def drop(self, line: int) -> None:
    """The line is over; what it has read may serve others."""
    self._seats.drop(line)
    self._asked.pop(line, None)

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
    speakers, version, out = self._written
    self._written = None
    out = jax.device_get(out)
    self.counts['rounds'] += 1
    heard = [self._hear(*speaker, version, out) for speaker in speakers]
    return [spoken for spoken in heard if spoken]

  def taken(self) -> dict[str, int]:
    """What was done since this was called last."""
    counts, self.counts = self.counts, dict.fromkeys(COUNTS, 0)
    return counts

  def _seat(self) -> None:
    """Slots for lines that wait, as long as there are any."""
    for taken in self._seats.seat():
      if taken.source is not None:
        source, target = np.array([taken.source]), np.array([taken.slot])
        self._cache = self._run.copy(self._cache, source, target)
      self.counts['shared'] += taken.shared
      self.counts['evicted'] += taken.evicted

  def _behind(self) -> bool:
    """Whether more lines are to read than to write."""
    seats = self._seats
    pending = [seats.pending(x) > 0 for x in seats.sitting().values()]
    return sum(pending) * 2 > len(pending)

  def _read_once(self) -> bool:
    """One chunk for some slots; False if nobody has anything to read."""
    sizes, seats = self._sizes, self._seats
    readers = [x for x in seats.sitting().values() if seats.pending(x)]
    if not readers:
      return False
    n = sizes.slots
    wide = len(readers) > sizes.lanes or sizes.lanes >= n
    lanes = n if wide else sizes.lanes
    longest = max(map(seats.pending, readers))
    width = next((c for c in sizes.chunks if c >= longest), sizes.chunks[-1])
    slot = np.arange(n) if wide else np.full(lanes, n)
    start = np.zeros(lanes, np.int32)
    tokens = np.zeros((lanes, width), np.int32)
    lengths = seats.lengths
    if wide:  # where nobody reads, what is written behind the end is of no use
      start[:] = lengths
    for lane, line in enumerate(readers):
      at = line.slot if wide else lane
      new = seats.read(line, width)
      slot[at], start[at] = line.slot, lengths[line.slot]
      tokens[at, : len(new)] = new
      self.counts['read'] += len(new)
    slot = slot.astype(np.int32)
    self._cache = self._run.read(self._params, self._cache, slot, tokens, start)
    return True

  def _write(self) -> None:
    """A burst of tokens for all who have nothing to read."""
    seats = self._seats
    speakers = [
      (line, self._asked[name])
      for name, line in seats.sitting().items()
      if not seats.pending(line)
    ]
    if not speakers:
      return
    n = self._sizes.slots
    w = Writing(
      live=np.zeros(n, bool),
      last=np.zeros(n, np.int32),
      filled=np.array(seats.lengths, np.int32),
      said=np.zeros(n, np.int32),
      budget=np.ones(n, np.int32),
      key=np.zeros((n, 2), np.uint32),
      temperature=np.ones(n, np.float32),
      top_k=np.zeros(n, np.int32),
      top_p=np.ones(n, np.float32),
    )
    for line, (how, _) in speakers:
      i = line.slot
      w.live[i], w.last[i] = True, line.want[-1]
      w.said[i], w.budget[i] = len(line.want) - line.begun, how.budget
      w.key[i], w.temperature[i] = how.key, how.temperature
      w.top_k[i], w.top_p[i] = how.top_k, how.top_p
    self._cache, out = self._run.write(self._params, self._cache, w)
    self._written = speakers, self._version, out

  def _hear(
    self, line: Line, asked: tuple[How, Spoken], version: int, out
  ) -> Spoken | None:
    """Takes a line's new tokens; its message if that is finished."""
    how, said = asked
    if self._asked.get(said.line) is not asked:  # dropped while it spoke
      return None
    i = line.slot
    new = out.tokens[i, : int(out.count[i])].tolist()
    self._seats.write(line, new)
    said.ids.extend(new)
    said.logp.extend(out.logp[i, : len(new)].tolist())
    said.entropy.extend(out.entropy[i, : len(new)].tolist())
    said.version.extend([version] * len(new))
    self.counts['written'] += len(new)
    size = self._ended(how, said.ids)
    if not size:
      return None
    self.counts['lost'] += len(said.ids) - size
    for x in (said.ids, said.logp, said.entropy, said.version):
      del x[size:]
    self._seats.end(line, size)
    return said

  def _ended(self, how: How, ids: list[int]) -> int:
    """How many of the tokens are the message; 0 while it goes on."""
    cut = how.stop(ids) if how.stop else 0
    over = ids[-1] == self._eot or len(ids) >= how.budget
    return cut or (len(ids) if over else 0)


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
