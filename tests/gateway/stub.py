"""A gateway over a generator that says what a test wants; a plain client."""

import asyncio
import contextlib
import http.client
import json
import threading
import time
import urllib.parse
from concurrent.futures import Future

import numpy as np
import uvicorn.server

from agentrl.gateway.app import GatewayLimits
from agentrl.gateway.request import ModelReply
from agentrl.gateway.server import Gateway
from agentrl.gateway.session import Session, SessionLimits, attempt_sampling
from agentrl.rollout.engine.engine import Completion
from agentrl.text import chat_format, tokenizer
from agentrl.text.chat_messages import ToolUse
from agentrl.text.tool_calls import format_of

WORDS = tokenizer.Embedded()
LIMITS = SessionLimits(calls=8, message=64, context=2000, row=4000)
KEYS = np.arange(256, dtype=np.uint32).reshape(128, 2)


class Impatient:
  """asyncio for uvicorn, which looks every tenth of a second if it may end."""

  def __getattr__(self, name):
    return getattr(asyncio, name)

  async def sleep(self, seconds):
    await asyncio.sleep(seconds / 20)


uvicorn.server.asyncio = Impatient()


def complete(ids):
  size = len(ids)
  logp = [-0.5 - i for i in range(size)]
  return Completion(0, list(ids), logp, [0.1] * size, [3] * size)


# A text and a call of a tool.
USE = ToolUse('c1', 'find', '{"x":1}')
REPLY = ModelReply(
  'r', 7, 'policy', 'so', [USE], 'tool_calls', (4, 5), complete([9, 10, 2])
)


def until(true):
  end = time.monotonic() + 60
  while not true():
    assert time.monotonic() < end
    time.sleep(0.005)


class Stub:
  """Answers at once, or when a test lets it; remembers what it was asked."""

  def __init__(self, texts=(), held=False):
    self.texts, self.asked, self.futures = iter(texts), [], []
    self.go = threading.Event()
    if not held:
      self.go.set()

  def submit(self, context, how):
    future = Future()
    self.asked.append((list(context), how))
    self.futures.append(future)
    text = next(self.texts, f'said {len(self.asked)}')
    ids = [*WORDS.encode(text), WORDS.eot][: how.budget]
    if how.stop:
      sizes = (how.stop(ids[:n]) for n in range(1, len(ids) + 1))
      ids = ids[: next((n for n in sizes if n), len(ids))]
    if self.go.is_set():
      future.set_result(complete(ids))
    else:
      threading.Thread(target=self._later, args=(future, ids)).start()
    return future

  def _later(self, future, ids):
    self.go.wait(20)
    if not future.cancelled():
      future.set_result(complete(ids))


class Client:
  """Requests to one session."""

  def __init__(self, address, key):
    self.at, self.key = urllib.parse.urlsplit(address), key

  def connect(self):
    return http.client.HTTPConnection(self.at.hostname, self.at.port, 20)

  def send(self, path, body, method='POST', **headers):
    """-> status, text."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = {'Content-Type': 'application/json'}
    headers = {'Authorization': f'Bearer {self.key}', **kind, **headers}
    connection = self.connect()
    with contextlib.closing(connection):
      connection.request(method, f'{self.at.path}/{path}', raw, headers)
      response = connection.getresponse()
      return response.status, response.read().decode()

  def post(self, path, body, **headers):
    """-> status, JSON."""
    status, text = self.send(path, body, **headers)
    return status, json.loads(text)

  def chat(self, messages, **fields):
    body = {'model': 'policy', 'messages': messages, **fields}
    status, reply = self.post('v1/chat/completions', body)
    assert status == 200, reply
    return reply


def user(text):
  return {'role': 'user', 'content': text}


@contextlib.contextmanager
def opened(generator=None, session=None, limits=None, **fields):
  """-> gateway, client of the session 'a', session."""
  session = session or made(**fields)
  server = limits or GatewayLimits()
  generator = Stub() if generator is None else generator
  with Gateway(
    generator, model='policy', context=2000, limits=server
  ) as gateway:
    yield gateway, Client(gateway.open('a', session), gateway.key), session


def made(format='hermes', **fields):
  talk = chat_format.bare(WORDS)
  limits = LIMITS._replace(**fields)
  sampling = attempt_sampling(limits, KEYS)
  return Session(talk, format_of(format), limits, sampling)
