"""Continuous-batching engine: the host side of generation.

Conversations, called sequences, get slots (scheduler.py). Those with unread
tokens are prefilled in chunks; the others decode.

  dispatch()  enqueues one round on the device: prefill chunks, then a burst
  collect()   waits for it; -> the completions it finished

Between the two the host is free. Tokens and log-probs of a message depend on
the context, its key and the parameters, not on the rest of the batch.
"""

import dataclasses
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from agentrl import mesh
from agentrl.nn import transformer
from agentrl.rollout.engine import programs
from agentrl.rollout.engine.programs import DecodeInputs
from agentrl.rollout.engine.scheduler import Request, Scheduler

# Tokens prefilled, and of them those that earlier parameters had prefilled or
# decoded; reused from a slot, decoded, decoded past the end of a message;
# sequences that lost their slot; rounds; parameters replaced while in use.
COUNTS = (
  'prefilled',
  'prefilled_again',
  'prefix_hits',
  'decoded',
  'discarded',
  'evicted',
  'rounds',
  'swaps',
)


LEAST_CHUNK = 4  # tokens; narrower products are no faster


@dataclasses.dataclass(frozen=True)
class Sizes:
  """Static sizes of the compiled programs.

  capacity: tokens of a sequence, its message included
  burst: tokens decoded between two syncs with the host
  chunk: tokens that a slot prefills at a time
  lanes: slots prefilled together, at the least
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
    """Chunk widths that prefill is compiled for, each half of the next.

    An answer of an environment is a few tokens long, a prompt hundreds, and
    what is left of a chunk is computed all the same.
    """
    widths = [self.chunk]
    while widths[0] > LEAST_CHUNK:
      widths.insert(0, -(-widths[0] // 2))
    return tuple(widths)

  @property
  def near(self) -> int:
    """Tokens of a prefix that are prefilled twice rather than waited for."""
    return max(1, self.chunk // 8)

  @property
  def lane_counts(self) -> tuple[int, ...]:
    """Numbers of slots that prefill is compiled for."""
    counts = []
    while self.lanes << 2 * len(counts) < self.slots:
      counts.append(self.lanes << 2 * len(counts))
    return *counts, self.slots


class SamplingParams(NamedTuple):
  """Sampling parameters of a message, and where it ends."""

  key: np.ndarray  # [2] u32: token t is drawn by fold_in(key, t)
  budget: int  # tokens at most, end of turn included
  temperature: float = 1.0  # 0: the likeliest
  top_k: int = 0  # 0: all
  top_p: float = 1.0
  # Tokens so far -> how many of them are the message, 0 while it goes on.
  stop: Callable[[Sequence[int]], int] | None = None
  adapter: int = 0  # of several on one base


class Completion(NamedTuple):
  """A finished message; all lists are of its tokens."""

  sequence: int
  ids: list[int]
  logp: list[float]  # before top-k and top-p, nats
  entropy: list[float]  # of that distribution, nats
  version: list[int]  # of the policy that wrote the token


class Swap(NamedTuple):
  """Parameters that sequences under way go on with."""

  params: Any
  version: int | tuple[int, ...]
  drain: bool  # messages under way are finished before


class GenerationFault(NamedTuple):
  """A message that a generator could not make; it costs its trajectory."""

  sequence: int
  text: str  # why


# Engines may run in several threads, and all devices of a mesh must be given
# their programs in one order: collectives wait for the other devices.
_ORDER = threading.Lock()


class Engine:
  """Generates messages of many sequences in a fixed number of slots."""

  def __init__(
    self, shape: transformer.DecoderConfig, sizes: Sizes, *, eot: int
  ):
    if shape.positions and sizes.capacity > shape.positions:
      raise ValueError(
        f'a slot of {sizes.capacity} tokens is longer than the'
        f' {shape.positions} positions of the model; raise model.positions or'
        ' lower rollout.context'
      )
    rows = mesh.axis_size('batch')
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
    self._scheduler = Scheduler(sizes.slots, sizes.near)
    # Of every sequence.
    self._requests: dict[int, tuple[SamplingParams, Completion]] = {}
    self._given: Any = None
    self._params: Any = None
    self._cache: Any = None
    self._written: Any = None  # by a round that was dispatched
    self._versions: tuple[int, ...] = (0,)
    self._swap: Swap | None = None  # that is due
    self.counts = dict.fromkeys(COUNTS, 0)

  @property
  def busy(self) -> bool:
    """True if a round has work to do."""
    return self._scheduler.busy

  def update_weights(self, params, version: int | tuple[int, ...]) -> None:
    """Sets the parameters used from the next round on.

    Sequences under way keep their KV cache (`swap_weights` computes it again);
    new ones share no prefix that older parameters have computed.

    Args:
      params: of the model; or a tuple of several adapters on one base, between
        which `SamplingParams.adapter` chooses
      version: of the policy; of each adapter
    """
    self._swap = None
    with _ORDER:
      if self._install(params, version):
        self._scheduler.renew()

  def swap_weights(
    self, params, version: int | tuple[int, ...], *, drain: bool
  ) -> None:
    """Sets the parameters that sequences under way go on with, too.

    What they have read and written is prefilled again, so that token t of a
    message has the log-prob that the parameters of its own version give it
    after all that stands before it. It is drawn by fold_in(key, t) as ever.

    The next round begins with them, or the last of several that are due.

    Args:
      params, version: as in `update_weights`
      drain: rounds go on for the messages that have a token, and no other
        begins, until they are finished. Rounds of both versions by turns would
        not be fewer: a round is of one, and costs the same for any number of
        slots.
    """
    self._swap = Swap(params, version, drain)

  def submit(
    self, sequence: int, context: Sequence[int], how: SamplingParams
  ) -> None:
    """Requests the next message, after a context of at least one token.

    Raises:
      ValueError: there is no room for it, or the sequence has not finished.
    """
    room = self._sizes.capacity - len(context)
    if not context or how.budget < 1 or room < how.budget:
      raise ValueError(
        f'a message of {how.budget} tokens after {len(context)} does not fit a'
        f' slot of {self._sizes.capacity}; ask for 1 to {max(room, 0)} after at'
        ' least one'
      )
    self._scheduler.submit(sequence, context, how.adapter)
    self._requests[sequence] = how, Completion(sequence, [], [], [], [])

  def cancel(self, sequence: int) -> None:
    """Ends the sequence; its prefix stays available to others."""
    self._scheduler.cancel(sequence)
    self._requests.pop(sequence, None)

  def forget(self) -> None:
    """Stops sharing what is cached so far with sequences to come."""
    self._scheduler.renew()

  def dispatch(self) -> None:
    """Enqueues prefill chunks and a burst of decoding."""
    if self._params is None:
      raise ValueError('the engine has no parameters yet; update_weights')
    with _ORDER:
      self._take_swap()
      if self._swap is None:
        self._assign_slots()
        # Decoding waits for most sequences: it costs the same for any number.
        while self._prefill_once() and self._prefill_lags():
          self._assign_slots()
      self._decode()

  def collect(self) -> list[Completion]:
    """Waits for the dispatched round; -> the completions it finished."""
    if self._written is None:
      return []
    decoding, versions, out = self._written
    self._written = None
    out = jax.device_get(out)
    self.counts['rounds'] += 1
    completions = [
      self._extend(request, entry, versions, out) for request, entry in decoding
    ]
    return [spoken for spoken in completions if spoken]

  def taken(self) -> dict[str, int]:
    """Returns the counts since the last call."""
    counts, self.counts = self.counts, dict.fromkeys(COUNTS, 0)
    return counts

  def _install(self, params, version: int | tuple[int, ...]) -> bool:
    """Takes parameters; False if they are those that it has."""
    self._versions = version if isinstance(version, tuple) else (version,)
    if params is self._given:
      return False
    self._given, self._params = params, self._run.prepare(params)
    if self._cache is None:
      self._cache = self._run.empty()
    return True

  def _take_swap(self) -> None:
    """Takes parameters that are due, unless messages are to be finished."""
    swap = self._swap
    if swap is None or (swap.drain and self._decoding()):
      return
    self._swap = None
    if self._install(swap.params, swap.version):
      self._scheduler.drop()
      self.counts['swaps'] += 1

  def _assign_slots(self) -> None:
    """Assigns free slots to waiting sequences."""
    for taken in self._scheduler.assign_slots():
      if taken.source is not None:
        source, target = np.array([taken.source]), np.array([taken.slot])
        self._cache = self._run.copy(self._cache, source, target)
      self.counts['prefix_hits'] += taken.shared
      self.counts['evicted'] += taken.evicted

  def _prefill_lags(self) -> bool:
    """Tells whether over an eighth of the requests await their prefill."""
    scheduler = self._scheduler
    pending = [scheduler.pending(x) > 0 for x in scheduler.scheduled().values()]
    return sum(pending) * 8 > len(pending)

  def _prefill_once(self) -> bool:
    """Prefills one chunk of every slot; False if none has anything left."""
    scheduler = self._scheduler
    prefilling = [
      x for x in scheduler.scheduled().values() if scheduler.pending(x)
    ]
    read = bool(prefilling)
    # Those with much left come together: others do with a narrow chunk.
    prefilling.sort(key=scheduler.pending, reverse=True)
    while prefilling:
      lanes = _lanes(len(prefilling), self._sizes.lane_counts)
      self._prefill(prefilling[:lanes], lanes)
      del prefilling[:lanes]
    return read

  def _prefill(self, prefilling: Sequence[Request], lanes: int) -> None:
    """Prefills one chunk of some slots, `lanes` at most."""
    sizes, scheduler = self._sizes, self._scheduler
    n = sizes.slots
    wide = lanes == n
    longest = max(map(scheduler.pending, prefilling))
    width = next((c for c in sizes.chunks if c >= longest), sizes.chunks[-1])
    slot = np.arange(n) if wide else np.full(lanes, n)
    start = np.zeros(lanes, np.int32)
    tokens = np.zeros((lanes, width), np.int32)
    adapter = np.zeros(lanes, np.int32)
    lengths = scheduler.lengths
    if wide:  # the others write padding past their end
      start[:] = lengths
    for lane, request in enumerate(prefilling):
      at = request.held if wide else lane
      new, have = scheduler.read(request, width), lengths[request.held]
      slot[at], start[at] = request.held, have
      tokens[at, : len(new)] = new
      adapter[at] = request.adapter
      self.counts['prefilled'] += len(new)
      again = min(request.dropped, have + len(new)) - have
      self.counts['prefilled_again'] += max(again, 0)
    slot = slot.astype(np.int32)
    self._cache = self._run.read(
      self._params, self._cache, slot, tokens, start, adapter
    )

  def _decoding(
    self,
  ) -> list[tuple[Request, tuple[SamplingParams, Completion]]]:
    """Returns the requests that are prefilled.

    While a swap is due, only what has a token of its message already.
    """
    scheduler = self._scheduler
    return [
      (request, self._requests[sequence])
      for sequence, request in scheduler.scheduled().items()
      if not scheduler.pending(request)
      if self._swap is None or request.spoken
    ]

  def _decode(self) -> None:
    """Decodes a burst of tokens for all sequences that are prefilled."""
    scheduler, decoding = self._scheduler, self._decoding()
    if not decoding:
      return
    n = self._sizes.slots
    w = DecodeInputs(
      live=np.zeros(n, bool),
      last=np.zeros(n, np.int32),
      filled=np.array(scheduler.lengths, np.int32),
      length=np.zeros(n, np.int32),
      budget=np.ones(n, np.int32),
      key=np.zeros((n, 2), np.uint32),
      temperature=np.ones(n, np.float32),
      top_k=np.zeros(n, np.int32),
      top_p=np.ones(n, np.float32),
      adapter=np.zeros(n, np.int32),
    )
    for request, (how, _) in decoding:
      i = request.held
      w.live[i], w.last[i] = True, request.want[-1]
      w.length[i], w.budget[i] = request.spoken, how.budget
      w.key[i], w.temperature[i] = how.key, how.temperature
      w.top_k[i], w.top_p[i] = how.top_k, how.top_p
      w.adapter[i] = how.adapter
    self._cache, out = self._run.write(self._params, self._cache, w)
    self._written = decoding, self._versions, out

  def _extend(
    self, request: Request, entry, versions: tuple[int, ...], out
  ) -> Completion | None:
    """Adds a sequence's new tokens; -> its completion once that is finished."""
    how, message = entry
    if self._requests.get(message.sequence) is not entry:  # cancelled meanwhile
      return None
    i = request.held
    new = out.tokens[i, : int(out.count[i])].tolist()
    self._scheduler.write(request, new)
    message.ids.extend(new)
    message.logp.extend(out.logp[i, : len(new)].tolist())
    message.entropy.extend(out.entropy[i, : len(new)].tolist())
    message.version.extend([versions[how.adapter]] * len(new))
    self.counts['decoded'] += len(new)
    size = how.stop(message.ids) if how.stop else 0
    if message.ids[-1] == self._eot or len(message.ids) >= how.budget:
      size = size or len(message.ids)
    if not size:
      return None
    self.counts['discarded'] += len(message.ids) - size
    for x in (message.ids, message.logp, message.entropy, message.version):
      del x[size:]
    self._scheduler.end(request, size)
    return message


def _lanes(prefilling: int, counts: Sequence[int]) -> int:
  """Picks slots of the next prefill: all, if they fill more than half of it.

  Else for as many as fill one.
  """
  room = next(c for c in counts if c >= prefilling)
  full = [c for c in counts if c <= prefilling]
  return room if 2 * prefilling > room or not full else full[-1]


def texts(stops: Iterable[str], decode: Callable[[Sequence[int]], str]):
  """Makes a `SamplingParams.stop` at the token that completes a text."""
  stops = tuple(stops)

  def has_stop(ids: Sequence[int]) -> bool:
    text = decode(ids)
    return any(stop in text for stop in stops)

  def stop(ids: Sequence[int]) -> int:
    if not has_stop(ids):
      return 0
    low, high = 0, len(ids)  # not yet, already
    while high - low > 1:
      middle = (low + high) // 2
      low, high = (low, middle) if has_stop(ids[:middle]) else (middle, high)
    return high

  return stop
