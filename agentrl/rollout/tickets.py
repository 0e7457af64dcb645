"""Tickets: batches that are collected beside the updates before theirs.

Ticket n is the batch of step n. With staleness S and v updates done, it is

  admitted   once n <= v + S, when the batch of step v is asked for
  sampled    by a version u that was published when it began: v <= u
  consumed   by update n, when v = n: in order, and each exactly once

A ticket that began at version u has n <= u + S, so that no token is older than
S updates, whatever takes how long; nothing is dropped, and no trajectory is
preferred for being short.

In the order 'fixed' ticket n is sampled by version max(first, n − S), which is
the oldest that it may be: batches are the same bits for any timing and any
number of threads, and as `stale.oldest` gives them without threads. In the
order 'latest' it is the newest that there is when the ticket begins. Collectors
that follow may go on with newer ones, which only makes their tokens younger.
"""

import collections
import functools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from concurrent.futures import Future
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from absl import logging

from agentrl.rollout import stale
from agentrl.runtime import threads
from agentrl.types import Batch, Metrics, PyTree, TrainState

# (state, attempts, step) -> batch, what is measured of it; those that follow
# take `newest`, which returns a state, by name
Collect = Callable[..., tuple[Batch, Metrics]]


class Book(NamedTuple):
  """Which tickets may begin, and by which version. Tickets are [first, end)."""

  staleness: int  # S
  order: str
  first: int  # version at which the stage began
  end: int

  def admitted(self, version: int) -> int:
    """Returns the first ticket that may not begin at this version."""
    return min(version + self.staleness + 1, self.end)

  def oldest(self, version: int) -> int:
    """Returns the oldest version that a ticket may still be sampled by."""
    return version - (self.staleness if self.order == 'fixed' else 0)

  def version(self, ticket: int, newest: int) -> int:
    """Returns the version that samples a ticket which begins now."""
    if self.order == 'latest':
      return newest
    return max(self.first, ticket - self.staleness)


class Tickets:
  """A loop.Sampler whose batches are collected ahead, in threads.

  As many are collected at a time as there are collectors; each is asked by one
  thread at a time.
  """

  def __init__(
    self,
    book: Book,
    task: Callable[[TrainState, int], Any],
    collectors: Sequence[Collect],
    *,
    reads: stale.Reads,
    publish: Callable[[PyTree], PyTree] = stale.copy,
    halt: Callable[[], None] = lambda: None,
    follow: bool = False,
    patience: float = 60.0,
  ):
    """Takes what chooses attempts and what plays them, as of loop.Sampler.

    Args:
      publish: copies arrays of the state to where they are played
      halt: ends what collectors play, once nobody needs it
      follow: collectors are given `newest`, to go on with newer versions
      patience: seconds after which a wait is said, and again each time
    """
    self._book, self._task, self._reads = book, task, reads
    self._copy, self._halt, self._patience = publish, halt, patience
    self._lock = threading.Lock()
    if follow:
      each = [functools.partial(x, newest=self.newest) for x in collectors]
      collectors = each
    self._idle = collections.deque(collectors)
    self._waiting: collections.deque[int] = collections.deque()
    self._results: dict[int, Future] = {}
    self._running: dict[int, tuple[int, float]] = {}  # version, since when
    self._issued = -1  # first ticket that was not issued yet
    self._seen: dict[int, TrainState] = {}  # by version
    self._still: dict[str, PyTree] = {}  # roles; copied once
    self._closed = False

  def task(self, state: TrainState, step: int) -> None:
    """Chooses nothing: a ticket's attempts are chosen when it begins."""

  def collect(
    self, state: TrainState, attempts: None, step: int
  ) -> tuple[Batch, Metrics]:
    """Publishes the state, issues what it admits, and waits for its ticket."""
    self.publish(state, step)
    return self.take(step)

  def take(self, step: int) -> tuple[Batch, Metrics]:
    """Issues what the published state admits, and waits for its ticket."""
    self._issue(step)
    began = time.monotonic()
    result = self._results[step]
    while not futures.wait([result], timeout=self._patience).done:
      logging.warning('%s', self._stall(step, time.monotonic() - began))
    batch, metrics = result.result()
    del self._results[step]
    waited = jnp.float32(time.monotonic() - began)
    return batch, metrics | {'time/wait_seconds': (waited, jnp.ones(()))}

  def newest(self) -> TrainState | None:
    """Returns the newest state that was published; None while it is computed.

    For collectors, in any thread: none waits for an update.
    """
    with self._lock:
      state = self._seen[max(self._seen)]
    read = jax.tree.leaves((state.step, state.params))
    done = all(x.is_ready() for x in read)
    return state if done else None

  def _stall(self, step: int, waited: float) -> str:
    """Says which tickets the learner waits for, and since when."""
    with self._lock:
      now, running = time.monotonic(), dict(self._running)
      waiting = list(self._waiting)
    each = ', '.join(
      f'batch {n} by policy version {version} for {now - since:.0f} s'
      for n, (version, since) in sorted(running.items())
    )
    return (
      f'step {step} has waited {waited:.0f} s for its batch; being collected:'
      f' {each or "none"}; not begun: {waiting or "none"}'
    )

  def close(self) -> None:
    """Begins no other ticket, and returns when none is being collected."""
    self._halt()
    with self._lock:
      self._closed = True
      for ticket in self._waiting:
        del self._results[ticket]
    while futures.wait(self._results.values(), timeout=self._patience).not_done:
      logging.warning('waiting for the end of batches %s', [*self._running])

  def publish(self, state: TrainState, step: int) -> None:
    """Copies what rollouts see, since the update donates the state."""
    ages = range(len(state.past) + 1) if not self._seen else [0]
    seen = {step - age: self._copied(stale.at(state, age)) for age in ages}
    with self._lock:
      kept, oldest = self._seen | seen, self._book.oldest(step)
      self._seen = {v: x for v, x in kept.items() if v >= oldest}

  def _copied(self, state: TrainState) -> TrainState:
    if not self._still:
      names = self._reads.still
      self._still = self._copy({name: state.params[name] for name in names})
    seen, key = self._copy((stale.seen(state, self._reads), state.key))
    return TrainState(
      step=seen.step,
      params=self._still | seen.params,
      opt={},
      signal={},
      memory=seen.memory or (),
      key=key,
    )

  def _issue(self, step: int) -> None:
    with self._lock:
      first = max(step, self._issued)
      self._issued = self._book.admitted(step)
      for ticket in range(first, self._issued):
        self._results[ticket] = Future()
        self._waiting.append(ticket)
    self._begin()

  def _begin(self) -> None:
    """Begins waiting tickets as long as there are idle collectors."""
    with self._lock:
      while self._waiting and self._idle and not self._closed:
        ticket, collect = self._waiting.popleft(), self._idle.popleft()
        result = self._results[ticket]
        try:
          version = self._book.version(ticket, max(self._seen))
          run = functools.partial(
            self._run, ticket, result, collect, self._seen[version]
          )
          self._running[ticket] = version, time.monotonic()
          threads.start(run)
        except Exception as error:  # such as a thread that there is no room for
          self._running.pop(ticket, None)
          self._idle.append(collect)
          result.set_exception(error)

  def _run(
    self, ticket: int, result: Future, collect: Collect, state: TrainState
  ) -> None:
    """Collects a ticket; whatever it raises is raised where it is needed."""
    began = time.monotonic()
    try:
      batch, metrics = collect(state, self._task(state, ticket), ticket)
    except BaseException as error:
      result.set_exception(error)
    else:
      took = jnp.float32(time.monotonic() - began), jnp.ones(())
      result.set_result((batch, {'time/collect_seconds': took} | metrics))
    with self._lock:
      del self._running[ticket]
      self._idle.append(collect)
    self._begin()
