"""Answers of a session: one generation per request and its retries."""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

from absl import logging

from agentrl.gateway.request import ModelReply, ModelRequest, RefusedError
from agentrl.gateway.session import PendingCall, Session
from agentrl.rollout.engine.engine import Completion, SamplingParams


class TokenGenerator(Protocol):
  """Source of tokens, such as rollout.engine.driver.GeneratorDriver.

  Cancelling a future withdraws its request.
  """

  def submit(
    self, context: Sequence[int], how: SamplingParams
  ) -> 'Future[Completion]': ...


class SharedReply:
  """Call in flight or answered, with the number of its waiters."""

  def __init__(self, task: 'asyncio.Task[ModelReply]'):
    self.task, self.waiting, self.began = task, 0, time.monotonic()

  def result(self) -> ModelReply:
    """Waits for the reply; RefusedError if the session has finished."""
    if self.task.cancelled():
      raise RefusedError('the session has finished', code='session_finished')
    return self.task.result()

  def leave(self) -> None:
    """Stops waiting; the last waiter cancels the generation."""
    if not self.waiting:
      self.task.cancel()

  @property
  def replays(self) -> bool:
    """Whether a retry can reuse this answer: it exists or is in flight."""
    if not self.task.done():
      return not self.task.cancelling()
    return not self.task.cancelled() and self.task.exception() is None


class SessionAnswers:
  """Session with its answers, in the server's thread."""

  def __init__(
    self,
    session: Session,
    generator: TokenGenerator,
    model: str,
    seconds: float,
  ):
    """Keeps each answer for retries, `seconds` long."""
    self.session, self._generator, self._model = session, generator, model
    self._seconds = seconds
    self._answers: dict[bytes, SharedReply] = {}
    # Requests are read one after the other, in the order in which they came.
    self._reading: set[asyncio.Task[ModelReply]] = set()
    self._turn = asyncio.Lock()

  @property
  def full(self) -> bool:
    """Whether the session will admit no further call."""
    return self.session.room <= len(self._reading)

  def answer(
    self, model_request: ModelRequest, digest: bytes, tries: str | None
  ) -> SharedReply:
    """Returns the call's answer, shared with the request that it retries.

    Clients may count their tries; without a count an equal body is a retry
    while the first request is in flight.

    Args:
      digest: of the body
      tries: earlier ones, as counted by the client; None: not counted
    Raises:
      RefusedError: the session has finished. The reply raises it if the
        session rejects the call.
    """
    first = self._answers.get(digest)
    if first is not None and time.monotonic() - first.began < self._seconds:
      again = not first.task.done() if tries is None else tries != '0'
      if again and first.replays:
        self.session.counts['retries'] += 1
        return first
    if self.session.finished:
      raise RefusedError('the session has finished', code='session_finished')
    task = asyncio.create_task(self._reply(model_request))
    self._reading.add(task)
    task.add_done_callback(self._reading.discard)
    task.add_done_callback(_log_failure)
    answer = self._answers[digest] = SharedReply(task)
    task.add_done_callback(lambda task: self._forget(digest, answer))
    return answer

  def close(self) -> None:
    """Finishes the session and cancels pending generations."""
    self.session.finished = True
    for answer in self._answers.values():
      answer.task.cancel()

  def _forget(self, digest: bytes, answer: SharedReply) -> None:
    """Drops an answer that was never generated."""
    if not answer.replays and self._answers.get(digest) is answer:
      del self._answers[digest]

  async def _reply(self, model_request: ModelRequest) -> ModelReply:
    session, task = self.session, asyncio.current_task()
    try:
      async with self._turn:
        prompt = await asyncio.to_thread(session.read, model_request)
    except asyncio.CancelledError:
      session.leave()
      raise
    call = session.begin(model_request, prompt)
    self._reading -= {task}
    return await self._generate(call)

  async def _generate(self, call: PendingCall) -> ModelReply:
    try:
      completion = call.given
      if completion is None:
        future = self._generator.submit(call.prompt.ids, call.how)
        completion = await asyncio.wrap_future(future)
    except asyncio.CancelledError:
      self.session.drop(call)
      raise
    except Exception as error:
      self.session.drop(call)
      text = f'no message was generated: {error}'
      raise RefusedError(text, status=500) from error
    return self.session.end(call, completion, self._model)


def _log_failure(task: asyncio.Task) -> None:
  """Logs a failure, since its client may have disconnected."""
  error = None if task.cancelled() else task.exception()
  if error is not None and not isinstance(error, RefusedError):
    logging.error('A call of the gateway failed: %r', error)
