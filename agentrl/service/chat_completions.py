"""Service of an OpenAI-compatible server: POST <address>/chat/completions.

Answers are kept in a file, one JSON object per line, and never paid for twice:
a resumed run gets the same answers. The key is read from the environment and
never appears in a message, file or error.
"""

import collections
import dataclasses
import json
import math
import os
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any

from agentrl.service import json_post
from agentrl.service.answer_file import AnswerFile, content_id
from agentrl.service.base import ServiceFault
from agentrl.service.chat_response import Reply, parse_response
from agentrl.text.message import Message


@dataclasses.dataclass(frozen=True)
class Endpoint:
  """Model of a server, with its budget."""

  address: str  # https://HOST/v1
  model: str
  key_env: str = 'OPENAI_API_KEY'  # environment variable of the key; '': none
  temperature: float = 1.0
  max_tokens: int = 32  # of an answer
  timeout: float = 60.0  # seconds for an answer
  tries: int = 6  # of one call
  per_minute: int = 0  # requests; 0: any number
  input_price: float = 0.0  # of a million tokens
  output_price: float = 0.0
  budget: float = 0.0  # most that is spent, in units of the prices; 0: any


def check(endpoint: Endpoint) -> None:
  """Raises ValueError, one sentence, for an invalid endpoint."""
  parts = urllib.parse.urlsplit(endpoint.address)
  if parts.scheme not in ('http', 'https') or not parts.hostname:
    raise ValueError(
      "address must be the URL of a server, such as 'https://HOST/v1', got"
      f' {endpoint.address!r}'
    )
  if parts.username or parts.password or parts.query:
    raise ValueError(
      f'the address of {parts.hostname} must not hold a user, a password or a'
      ' query, which would be written to the run folder; set key_env to an'
      ' environment variable with the key'
    )
  if not endpoint.model.strip():
    raise ValueError("model must name a model of the server, got ''")
  for name in ('input_price', 'output_price', 'budget'):
    value = getattr(endpoint, name)
    if not 0 <= value < math.inf:
      raise ValueError(f'{name} must be 0 or a positive number, got {value!r}')
  if endpoint.budget and not (endpoint.input_price or endpoint.output_price):
    raise ValueError(
      'input_price and output_price must be set, per million tokens, with'
      f' budget={endpoint.budget}'
    )
  # Not shown: it may be the key itself.
  if endpoint.key_env and not re.fullmatch(r'[A-Za-z_]\w*', endpoint.key_env):
    raise ValueError(
      'key_env must be the name of an environment variable; export the key in'
      ' one and set key_env to its name'
    )
  key = os.environ.get(endpoint.key_env, '').strip()
  if endpoint.key_env and not key:
    raise ValueError(
      f'the environment variable key_env={endpoint.key_env!r} must be set;'
      " export the server's key in it, or set key_env to '' if it needs none"
    )
  if not re.fullmatch('[!-~]*', key):  # or the error of a header would show it
    raise ValueError(
      f'the key in {endpoint.key_env} must have only printable characters;'
      ' export it again'
    )


class ChatCompletions:
  """Service of an endpoint, safe to call from several threads.

  counts: 'requests' sent, 'retries' among them, tokens 'read' and 'written' by
    the model.
  """

  def __init__(
    self,
    endpoint: Endpoint,
    cache: str | os.PathLike[str] | None,
    *,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
  ):
    """Reads the cached answers.

    Args:
      cache: file of answers, created with the first one; None: no file
      sleep, now: the clock

    Raises:
      ValueError: as `check`.
    """
    check(endpoint)
    self._endpoint, self._sleep, self._now = endpoint, sleep, now
    self._secret = os.environ.get(endpoint.key_env, '').strip()
    self._file, self._lock = AnswerFile(cache), threading.Lock()
    self._sent: collections.deque[float] = collections.deque()
    self._counts: collections.Counter[str] = collections.Counter()

  @property
  def spent(self) -> float:
    """Cost so far by the prices, including earlier starts of the run."""
    return self._file.cost

  def __call__(self, messages: Sequence[Message], *, seed: int) -> str:
    key = content_id(self._endpoint.address, self._body(messages, seed))
    text = self._file.get(key)
    if text is not None:
      return text
    reply, usage = self._reply(messages, seed)
    if reply.fault:
      self._file.note(**usage)
      raise ServiceFault(f'{self._endpoint.model} {reply.fault}')
    # Another thread may have asked the same meanwhile: the first answer is the
    # one, as it is after a resume.
    return self._file.put(key, reply.text, **usage)

  def reply(self, messages: Sequence[Message], *, seed: int) -> Reply:
    """Asks the server for a reply, truncated or not; never uses the cache.

    Raises:
      ServiceFault: it failed.
    """
    reply, usage = self._reply(messages, seed)
    self._file.note(**usage)
    return reply

  def _body(self, messages: Sequence[Message], seed: int) -> dict[str, Any]:
    return request_body(self._endpoint, messages, seed)

  def _reply(
    self, messages: Sequence[Message], seed: int
  ) -> tuple[Reply, dict[str, Any]]:
    """Returns the reply and its usage."""
    body, e = self._body(messages, seed), self._endpoint
    data = json.dumps(body).encode()
    reply = self._ask(data)
    # Without a number of the server's the most that can be is paid: a token is
    # a byte at least. A budget would have no end otherwise.
    read = len(data) if reply.read is None else reply.read
    written = e.max_tokens if reply.written is None else reply.written
    cost = (read * e.input_price + written * e.output_price) / 1e6
    counts = {'read': reply.read or 0, 'written': reply.written or 0}
    with self._lock:
      self._counts.update(counts)
    return reply, {'cost': cost, **counts}

  def taken(self) -> dict[str, int]:
    """Returns the counts since the last call."""
    with self._lock:
      counts, self._counts = self._counts, collections.Counter()
    names = ('requests', 'retries', 'read', 'written')
    return {name: counts[name] for name in names}

  def _ask(self, data: bytes) -> Reply:
    """Asks the server, retrying up to the limit."""
    for left in reversed(range(self._endpoint.tries)):
      self._admit()
      try:
        return parse_response(self._post(data))
      except json_post.Again as error:
        if not left:
          raise ServiceFault(
            f'{self._endpoint.model} gave no answer in'
            f' {self._endpoint.tries} tries; the last one: {error}'
          ) from None
        tried = self._endpoint.tries - left
        self._sleep(json_post.pause(tried, error))
        with self._lock:
          self._counts['retries'] += 1
    raise AssertionError('tries must be at least 1')

  def _admit(self) -> None:
    """Waits for the rate limit; ServiceFault if the budget is spent."""
    e = self._endpoint
    while True:
      with self._lock:
        if e.budget and self.spent >= e.budget:
          raise ServiceFault(
            f'{self.spent:.4f} of budget={e.budget} was spent on {e.model};'
            ' raise it to continue'
          )
        now = self._now()
        while self._sent and self._sent[0] <= now - 60:
          self._sent.popleft()
        if not e.per_minute or len(self._sent) < e.per_minute:
          self._sent.append(now)
          self._counts['requests'] += 1
          return
        pause = self._sent[0] + 60 - now
      self._sleep(pause)

  def _post(self, data: bytes) -> bytes:
    """Posts a request. Raises ServiceFault or json_post.Again."""
    e = self._endpoint
    url = f'{e.address.rstrip("/")}/chat/completions'
    return json_post.post(url, data, self._secret, e.timeout)


def request_body(
  endpoint: Endpoint, messages: Sequence[Message], seed: int
) -> dict[str, Any]:
  """Builds the JSON body of a request."""
  return {
    'model': endpoint.model,
    'messages': [{'role': m.role, 'content': m.content} for m in messages],
    'temperature': endpoint.temperature,
    'max_tokens': endpoint.max_tokens,
    'seed': seed,
  }
