"""Language model as a service: an engine that many threads call.

    with EngineService(shape, sizes, talk) as model:
      model.update_weights(params)
      text = model([Message('user', 'Is it red?')], seed=3)  # in any thread

One thread drives the engine. Requests that arrive during a round join the next
one, so that they are answered as a batch. A longer version of an earlier
conversation reuses its cached prefix (rollout/engine/scheduler.py).
"""

import contextlib
import itertools
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import jax
import numpy as np
from absl import logging

from agentrl import mesh
from agentrl.nn import transformer
from agentrl.rollout.engine.driver import GeneratorDriver
from agentrl.rollout.engine.engine import (
  Completion,
  Engine,
  SamplingParams,
  Sizes,
)
from agentrl.service.base import ServiceFault
from agentrl.text import chat_format
from agentrl.text.chat_format import ChatFormat
from agentrl.text.chat_template import AGENT, Conversation, Message


class EngineService:
  """Serves one model until it is closed."""

  def __init__(
    self, shape: transformer.DecoderConfig, sizes: Sizes, talk: ChatFormat
  ):
    """Needs `update_weights` before the first call.

    Computes on the mesh that is set here, if any.

    Args:
      shape: of the model.
      sizes: of its engine; `capacity` holds a conversation and its answer.
      talk: how conversations become tokens; the model is the agent in them.
    """
    self._mesh = jax.sharding.get_mesh() if mesh.active() else None
    self._make = lambda: Engine(shape, sizes, eot=talk.words.eot)
    self._engine, self._talk, self._sizes = self._make(), talk, sizes
    self._driver, self._over = GeneratorDriver(self._engine), False
    self._weights: tuple[Any, Any] | None = None
    self._thread = threading.Thread(target=self._live, daemon=True)
    self._thread.start()

  def __enter__(self) -> 'EngineService':
    return self

  def __exit__(self, *_: Any) -> None:
    self.close()

  def __call__(
    self,
    messages: Sequence[Message],
    *,
    seed: int,
    temperature: float = 1.0,
    budget: int = 32,
  ) -> str:
    """Returns the model's next message; blocks.

    Token t is drawn as engine.SamplingParams says, by the key that `seed`
    makes. With temperature 0 it is the likeliest, and the seed does not matter.

    Args:
      messages: from the first on; the last is not the model's.
      seed: in [0, 2³¹).
      temperature: of the distribution that is sampled from.
      budget: tokens at most, end of turn included.

    Raises:
      ServiceFault: the conversation is too long, there are no parameters, the
        engine failed or the model was closed.
      ValueError: messages that cannot be put into words.
    """
    key = np.array([0, seed], np.uint32)  # jax.random.key, without the device
    how = SamplingParams(key, budget, temperature)
    answer: Future[Completion] = Future()
    if not self._driver.order(lambda: self._ask(messages, how, answer)):
      raise ServiceFault('the model is closed')
    return chat_format.content(self._talk.words, answer.result().ids)

  def submit(
    self, context: Sequence[int], how: SamplingParams
  ) -> Future[Completion]:
    """Requests a message after tokens; the future may be cancelled."""
    return self._driver.submit(context, how)

  def update_weights(self, params, version: int | tuple[int, ...] = 0) -> None:
    """Sets the parameters, which are copied before this returns.

    See `Engine.update_weights`.
    """
    done: Future = Future()

    def swap() -> None:
      try:
        self._engine.update_weights(params, version)
        self._weights = params, version
        done.set_result(None)
      except BaseException as error:
        done.set_exception(error)

    if not self._driver.order(swap):
      raise ValueError('the model is closed; create another one')
    done.result()

  def close(self) -> None:
    """Fails pending requests and stops the thread."""
    self._driver.close(self._end)
    self._thread.join()

  # In the thread.

  def _live(self) -> None:
    with jax.set_mesh(self._mesh) if self._mesh else contextlib.nullcontext():
      while not self._over:
        try:
          self._driver.round()
        except Exception as error:  # of the device, or missing parameters
          logging.exception('A model service failed and begins anew.')
          why = f'the engine failed: {type(error).__name__}: {error}'
          self._driver.fail(ServiceFault(why))
          self._engine = self._make()  # its cache was given away
          self._driver.generator = self._engine
          if self._weights:
            # Arrays that were given away since are there again with the next
            # update.
            with contextlib.suppress(RuntimeError):
              self._engine.update_weights(*self._weights)

  def _end(self) -> None:
    self._driver.fail(ServiceFault('the model was closed'))
    self._over = True

  def _ask(
    self, messages: Sequence[Message], how: SamplingParams, answer: Future
  ) -> None:
    try:
      ids = conversation(self._talk, messages).ids
      room = self._sizes.capacity - len(ids)
      if room < how.budget:
        raise ServiceFault(
          f'a conversation of {len(ids)} tokens and an answer of {how.budget}'
          f' are more than the {self._sizes.capacity} that there is room for'
        )
    except Exception as error:
      answer.set_exception(error)
    else:
      self._driver.begin(ids, how, answer)


def conversation(talk: ChatFormat, messages: Sequence[Message]) -> Conversation:
  """Encodes messages up to where the model speaks, its own with end of turn.

  A function of the texts alone, independent of earlier requests.

  Raises:
    ValueError: the first or the last message is the model's own, or two of
      its own follow each other.
  """
  own = [i for i, m in enumerate(messages) if m.role == AGENT]
  ends = [-1, *own, len(messages)]
  others = [messages[a + 1 : b] for a, b in itertools.pairwise(ends)]
  if not all(others):
    raise ValueError(
      f'messages by {[m.role for m in messages]} do not alternate; let others'
      f' speak first, last, and between two of the {AGENT}'
    )
  made = talk.start(others[0])
  for i, after in zip(own, others[1:], strict=True):
    ids = [*talk.words.encode(messages[i].content), talk.words.eot]
    made = talk.add_messages(talk.add_reply(made, ids), after)
  return made
