"""Requests a second that the gateway serves.

  python -m agentrl.lab.bench.gateway [SESSIONS [REQUESTS [BYTES]]]
  python -m agentrl.lab.bench.gateway model [SESSIONS [REQUESTS [BYTES]]]

A process of its own plays all sessions at once, each with a connection that is
kept, REQUESTS calls of BYTES each. Then one session alone, for what a call
costs that waits for nobody. The generator costs nothing; with `model` it is a
decoder of two layers, which is asked without the gateway as well, in turn with
it. No two calls ask for the same message.
"""

import asyncio
import contextlib
import functools
import itertools
import json
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np

from agentrl.rollout.engine.engine import Completion, SamplingParams, Sizes
from agentrl.text import chat_format
from agentrl.text.chat_messages import ChatMessage
from agentrl.text.message_graph import MessageGraph
from agentrl.text.tokenizer import Embedded
from agentrl.text.tool_calls import format_of

MESSAGE = 16  # tokens
SLOTS = 32  # of the engine
ROUNDS = 5  # of one session, with the gateway and without it in turn
ALONE = 40  # calls of a round
_LOADS = itertools.count()  # what texts begin with: nothing is read already


class Load(NamedTuple):
  """What a client saw."""

  seconds: float
  latencies: list[float]  # of each request, seconds
  errors: int
  used: float = 0.0  # seconds of a processor that the server took


class Instant:
  """Generator whose messages are there at once."""

  def __init__(self, words: Embedded):
    ids = [*words.encode('a' * (MESSAGE - 1)), words.eot]
    self._answer = Completion(0, ids, [-1.0] * MESSAGE, [1.0] * MESSAGE, [0])

  def submit(self, context, how) -> 'Future[Completion]':
    future: Future[Completion] = Future()
    future.set_result(self._answer)
    return future


def measure(
  sessions: int, requests: int, size: int, generator: Any = None
) -> Load:
  """Serves here what a client in another process sends.

  Args:
    size: bytes of a body
    generator: makes the messages; None: `Instant`
  """
  from agentrl.gateway.server import Gateway
  from agentrl.gateway.session import Session, SessionLimits, attempt_sampling

  words = Embedded()
  talk, format = chat_format.bare(words), format_of('hermes')
  limits = SessionLimits(requests, MESSAGE, 2 * size, 2 * size * requests)
  keys = np.zeros((requests, 2), np.uint32)
  sampling = attempt_sampling(limits, keys)
  generator = generator or Instant(words)
  with Gateway(generator, model='m', context=2 * size) as gateway:
    addresses = [
      gateway.open(str(i), Session(talk, format, limits, sampling))
      for i in range(sessions)
    ]
    order: dict[str, Any] = {'addresses': addresses, 'key': gateway.key}
    order |= {'requests': requests, 'size': size, 'load': next(_LOADS)}
    began = time.process_time()
    done = subprocess.run(
      [sys.executable, '-m', 'agentrl.lab.bench.gateway', 'client'],
      input=json.dumps(order),
      capture_output=True,
      text=True,
      check=True,
    )
    used = time.process_time() - began
  return Load(**json.loads(done.stdout.splitlines()[-1]))._replace(used=used)


def direct(generator: Any, sessions: int, requests: int, size: int) -> Load:
  """The same requests of a generator without a gateway.

  Their tokens are made before; an answer of a session brings its next request.
  """
  words, load = Embedded(), next(_LOADS)
  talk, format = chat_format.bare(words), format_of('hermes')
  graph, keys = MessageGraph(talk, format), np.zeros(2, np.uint32)
  prompts = [
    [
      graph.prompt([ChatMessage('user', text_of(load, name, i, size))]).ids
      for i in range(requests)
    ]
    for name in range(sessions)
  ]
  latencies: list[float] = []
  errors: list[Exception] = []
  over = threading.Semaphore(0)

  def ask(left) -> None:
    prompt = next(left, None)
    if prompt is None:
      over.release()
      return
    began = time.perf_counter()

    def done(future) -> None:
      latencies.append(time.perf_counter() - began)
      if (error := future.exception()) is not None:
        errors.append(error)
      ask(left)

    how = SamplingParams(keys, MESSAGE)
    generator.submit(prompt, how).add_done_callback(done)

  began, used = time.perf_counter(), time.process_time()
  for left in prompts:
    ask(iter(left))
  for _ in prompts:
    over.acquire()
  seconds = time.perf_counter() - began
  used = time.process_time() - used
  return Load(seconds, latencies, len(errors), used)


@contextlib.contextmanager
def small_model(capacity: int):
  """A decoder of two layers, as a service."""
  import jax

  from agentrl import mesh
  from agentrl.nn import config, transformer
  from agentrl.rollout.engine.service import EngineService

  words = Embedded()
  shape = transformer.DecoderConfig(
    vocab=words.vocab_size,
    width=64,
    layers=2,
    heads=4,
    kv_heads=4,
    head_dim=16,
    mlp=256,
  )
  talk, sizes = chat_format.bare(words), Sizes(SLOTS, capacity)
  with EngineService(shape, sizes, talk) as service:
    service.update_weights(mesh.init(config.specs(shape), jax.random.key(0)))
    yield service


def compare(
  generator: Any, sessions: int, requests: int, size: int
) -> Iterator[str]:
  """What the gateway adds to a call among many, and to one alone."""
  ways = {
    'without the gateway': functools.partial(direct, generator),
    'with it': functools.partial(measure, generator=generator),
  }
  for way in ways.values():
    way(sessions, 2, size)  # compiles
  for name, way in ways.items():
    yield report(f'{sessions} sessions, {name}', way(sessions, requests, size))
  medians = [
    [statistics.median(way(1, ALONE, size).latencies) for way in ways.values()]
    for _ in range(ROUNDS)
  ]
  added = sorted(1000 * (after - before) for before, after in medians)
  before, after = (
    1000 * statistics.median(x) for x in zip(*medians, strict=True)
  )
  yield (
    f'1 session: a call takes {before:.1f} ms without the gateway and'
    f' {after:.1f} ms with it, which adds {statistics.median(added):.1f} ms to'
    f' the median ({added[0]:.1f} to {added[-1]:.1f} over {ROUNDS} rounds)'
  )


def text_of(load: int, session: int, i: int, size: int) -> str:
  """A text that no other call begins with."""
  return f'{load}.{session}.{i}.'.ljust(max(4, size - 60), 'x')


async def _play(order: dict, name: int, latencies: list[float]) -> int:
  """Plays a session: -> requests that were not answered with a message."""
  at, errors = urllib.parse.urlsplit(order['addresses'][name]), 0
  reader, writer = await asyncio.open_connection(at.hostname, at.port)
  for i in range(order['requests']):
    text = text_of(order['load'], name, i, order['size'])
    body = json.dumps({'messages': [{'role': 'user', 'content': text}]})
    head = (
      f'POST {at.path}/v1/chat/completions HTTP/1.1\r\nHost: x\r\n'
      f'Authorization: Bearer {order["key"]}\r\n'
      f'Content-Length: {len(body)}\r\n\r\n'
    )
    began = time.perf_counter()
    writer.write(f'{head}{body}'.encode())
    lines = (await reader.readuntil(b'\r\n\r\n')).decode().split('\r\n')
    fields = dict(x.lower().split(': ', 1) for x in lines[1:] if ': ' in x)
    reply = await reader.readexactly(int(fields['content-length']))
    latencies.append(time.perf_counter() - began)
    errors += b'chat.completion' not in reply
  writer.close()
  return errors


async def _client(order: dict) -> Load:
  latencies: list[float] = []
  began = time.perf_counter()
  errors = await asyncio.gather(
    *(_play(order, x, latencies) for x in range(len(order['addresses'])))
  )
  return Load(time.perf_counter() - began, latencies, sum(errors))


def report(name: str, load: Load) -> str:
  count, x = len(load.latencies), sorted(load.latencies)
  return (
    f'{name}: {count} requests in {load.seconds:.1f} s,'
    f' {count / load.seconds:.0f} a second, {load.errors} errors; a call takes'
    f' {1000 * statistics.median(x):.1f} ms (median),'
    f' {1000 * x[int(0.99 * (count - 1))]:.1f} ms (99%), of which a processor'
    f' of the server worked {1000 * load.used / count:.2f} ms'
  )


def main() -> None:
  if sys.argv[1:] == ['client']:
    load = asyncio.run(_client(json.load(sys.stdin)))
    print(json.dumps(load._asdict()))
    return
  model = sys.argv[1:2] == ['model']
  given = [int(x) for x in sys.argv[1 + model :]]
  sessions, requests, size = [*given, *(256, 20, 2048)[len(given) :]]
  if model:
    with small_model(size + MESSAGE) as generator:
      for line in compare(generator, sessions, requests, size):
        print(line, flush=True)
    return
  measure(1, 20, size)  # imports, and what is made once
  print(report(f'{sessions} sessions', measure(sessions, requests, size)))
  print(report('1 session', measure(1, 100, size)))


if __name__ == '__main__':
  main()
