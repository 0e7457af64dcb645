"""Gateway benchmarks of `experiments.bench`: requests over HTTP.

A process of its own plays all sessions at once, each with a connection that is
kept. The generator of `gateway` costs nothing; `gateway_model` asks a decoder
through the gateway, and `gateway_direct` without it. `*_alone` is one session:
what a call costs that waits for no other.
"""

import contextlib
import dataclasses
import functools
import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np

from agentrl.lab.bench import gateway_client, sampling
from agentrl.lab.bench.sampling import BenchCase, SamplingBenchSize
from agentrl.rollout.engine.engine import Completion, SamplingParams, Sizes
from agentrl.rollout.engine.service import EngineService
from agentrl.text import chat_format
from agentrl.text.chat_messages import ChatMessage
from agentrl.text.message_graph import MessageGraph
from agentrl.text.tokenizer import Embedded
from agentrl.text.tool_calls import format_of

MESSAGE = 16  # tokens
BYTES, MODEL_BYTES = 2048, 256  # of a request
REQUESTS, ALONE = 20, 40  # of a session among many, and of one alone
_LOADS = itertools.count()


class Instant:
  """Generator whose messages are there at once."""

  def __init__(self, words: Embedded):
    ids = [*words.encode('a' * (MESSAGE - 1)), words.eot]
    self._answer = Completion(0, ids, [-1.0] * MESSAGE, [1.0] * MESSAGE, [0])

  def submit(self, context, how) -> 'Future[Completion]':
    future: Future[Completion] = Future()
    future.set_result(self._answer)
    return future


@contextlib.contextmanager
def requests(
  size: SamplingBenchSize, data: str
) -> Iterator[dict[str, BenchCase]]:
  """Yields cases of 8 sessions a slot, and of one session."""
  del data
  words = Embedded()
  shape = dataclasses.replace(size.shape, vocab=words.vocab_size)
  sizes = Sizes(slots=size.batch, capacity=MODEL_BYTES + MESSAGE)
  with (
    EngineService(shape, sizes, chat_format.bare(words)) as model,
    served(Instant(words), BYTES) as instant,
    served(model, MODEL_BYTES) as through,
  ):
    model.update_weights(sampling.params(size._replace(shape=shape)))
    ways = {
      'gateway': (instant, BYTES),
      'gateway_direct': (functools.partial(direct, model), MODEL_BYTES),
      'gateway_model': (through, MODEL_BYTES),
    }
    loads = {'': (8 * size.batch, REQUESTS), '_alone': (1, ALONE)}
    yield {
      way + suffix: BenchCase(
        f'{sessions} sessions, {count} calls each, {length} bytes',
        functools.partial(play, sessions, count, length),
        (),
        {'requests': sessions * count},
        base=f'gateway_direct{suffix}' if way == 'gateway_model' else '',
      )
      for suffix, (sessions, count) in loads.items()
      for way, (play, length) in ways.items()
    }


@contextlib.contextmanager
def served(generator: Any, size: int):
  """Yields (sessions, requests, size) -> None, which asks through a gateway.

  Raises RuntimeError for a request without a message.
  """
  command = [sys.executable, '-m', gateway_client.__name__]
  from agentrl.gateway import server, session  # need an extra

  talk, format = chat_format.bare(Embedded()), format_of('hermes')
  pipe, names = subprocess.PIPE, map(str, itertools.count())
  with (
    server.Gateway(generator, model='m', context=2 * size) as gateway,
    subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as client,
  ):
    assert client.stdin
    assert client.stdout
    orders, counts = client.stdin, client.stdout

    def play(sessions: int, requests: int, size: int) -> None:
      limits = session.SessionLimits(
        requests, MESSAGE, 2 * size, 2 * size * requests
      )
      keys = np.zeros((requests, 2), np.uint32)
      sampling = session.attempt_sampling(limits, keys)
      here = list(itertools.islice(names, sessions))
      order = gateway_client.Order(
        addresses=[
          gateway.open(x, session.Session(talk, format, limits, sampling))
          for x in here
        ],
        key=gateway.key,
        requests=requests,
        size=size,
        load=next(_LOADS),
      )
      print(json.dumps(order._asdict()), file=orders, flush=True)
      if errors := int(counts.readline()):
        raise RuntimeError(f'{errors} requests were not answered by a message')
      for x in here:
        gateway.close_session(x)

    yield play
    orders.close()


def direct(generator: Any, sessions: int, requests: int, size: int) -> None:
  """Asks a generator for the same without a gateway.

  An answer of a session brings its next request. Raises RuntimeError for a
  request without an answer.
  """
  talk, load = chat_format.bare(Embedded()), next(_LOADS)
  graph = MessageGraph(talk, format_of('hermes'))
  how = SamplingParams(np.zeros(2, np.uint32), MESSAGE)
  errors: list[BaseException] = []
  over = threading.Semaphore(0)

  def ask(session: int, i: int) -> None:
    if i == requests:
      over.release()
      return

    def done(future) -> None:
      if (error := future.exception()) is not None:
        errors.append(error)
      ask(session, i + 1)

    text = gateway_client.text_of(load, session, i, size)
    prompt = graph.prompt([ChatMessage('user', text)]).ids
    generator.submit(prompt, how).add_done_callback(done)

  for session in range(sessions):
    ask(session, 0)
  for _ in range(sessions):
    over.acquire()
  if errors:
    raise RuntimeError(f'{len(errors)} requests failed: {errors[0]}')
