"""Requests a second that the gateway serves; its generator costs nothing.

  python -m agentrl.bench.gateway [SESSIONS [REQUESTS [BYTES]]]

A process of its own plays all sessions at once, each with a connection that is
kept, REQUESTS calls of BYTES each. Then one session alone, for what a call
costs that waits for nobody.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import time
import urllib.parse
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np

from agentrl.rollout.engine.engine import Completion
from agentrl.text import chat_format
from agentrl.text.tokenizer import Embedded
from agentrl.text.tool_calls import format_of

MESSAGE = 16  # tokens


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


def measure(sessions: int, requests: int, size: int) -> Load:
  """Serves here what a client in another process sends."""
  from agentrl.gateway.server import Gateway
  from agentrl.gateway.session import Session, SessionLimits, attempt_sampling

  words = Embedded()
  talk, format = chat_format.bare(words), format_of('hermes')
  limits = SessionLimits(requests, MESSAGE, 2 * size, 2 * size * requests)
  keys = np.zeros((requests, 2), np.uint32)
  sampling = attempt_sampling(limits, keys)
  with Gateway(Instant(words), model='m', context=2 * size) as gateway:
    addresses = [
      gateway.open(str(i), Session(talk, format, limits, sampling))
      for i in range(sessions)
    ]
    order: dict[str, Any] = {'addresses': addresses, 'key': gateway.key}
    order |= {'requests': requests, 'size': size}
    began = time.process_time()
    done = subprocess.run(
      [sys.executable, '-m', 'agentrl.bench.gateway', 'client'],
      input=json.dumps(order),
      capture_output=True,
      text=True,
      check=True,
    )
    used = time.process_time() - began
  return Load(**json.loads(done.stdout.splitlines()[-1]))._replace(used=used)


async def _play(
  address: str, key: str, requests: int, size: int, latencies: list[float]
) -> int:
  """Plays a session: -> requests that were not answered with a message."""
  at, errors = urllib.parse.urlsplit(address), 0
  reader, writer = await asyncio.open_connection(at.hostname, at.port)
  for i in range(requests):
    text = f'{i:04}'.ljust(max(4, size - 60), 'x')
    body = json.dumps({'messages': [{'role': 'user', 'content': text}]})
    head = (
      f'POST {at.path}/v1/chat/completions HTTP/1.1\r\nHost: x\r\n'
      f'Authorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n\r\n'
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
    *(
      _play(x, order['key'], order['requests'], order['size'], latencies)
      for x in order['addresses']
    )
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
  given = [int(x) for x in sys.argv[1:]]
  sessions, requests, size = [*given, *(256, 20, 2048)[len(given) :]]
  measure(1, 20, size)  # imports, and what is made once
  print(report(f'{sessions} sessions', measure(sessions, requests, size)))
  print(report('1 session', measure(1, 100, size)))


if __name__ == '__main__':
  main()
