"""Sessions of an OpenEnv server: JSON over a WebSocket.

  -> {"type": "reset", "data": {"seed": 3}}   {"type": "step", "data": {...}}
  <- {"type": "observation", "data": {"observation": {...}, "reward": 0.5,
                                      "done": false}}
  <- {"type": "error", "data": {"message": "...", "code": "VALIDATION_ERROR"}}

Each connection has its own environment on the server. A full server answers
CAPACITY_REACHED and is asked again. Written against openenv 0.10.0.
"""

import contextlib
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any, NamedTuple

from agentrl.env import base

_PAUSES = (0.05, 2.0)  # seconds between tries, the first and the longest
_CLOSE = 2.0  # seconds for a server to say goodbye
_ERROR = 300  # characters of a server's error that are repeated
LIMIT = 1 << 20  # bytes of a message or a schema
LOOPBACK = ('127.0.0.1', 'localhost', '::1')


class Observation(NamedTuple):
  """Answer of the server to a reset or an action."""

  fields: Mapping[str, Any]
  reward: float
  done: bool


class ActionError(Exception):
  """Action that does not fit the server's schema; it had no effect."""


class ServerError(Exception):
  """Server that failed, is unreachable or sent an invalid answer."""


class _FullError(Exception):
  """All sessions of the server are taken."""


class OpenEnvSession:
  """One environment on the server, over a connection that is renewed."""

  def __init__(self, address: str, *, seconds: float, wait: float):
    """Stores the address; `reset` connects.

    Args:
      address: of the server, as `checked_address` gives it.
      seconds: timeout of each answer.
      wait: seconds to wait for a server that is full or restarting.
    """
    self._url = urllib.parse.urlunsplit(
      address_parts(address)._replace(path=f'{_path(address)}/ws')
    )
    self._seconds, self._wait = seconds, wait
    self._connection: Any = None
    self._open = contextlib.ExitStack()  # holds the connection

  def reset(self, data: Mapping[str, Any]) -> Observation:
    """Begins an episode; waits for a place.

    Raises:
      ServerError: the wait timed out, or the environment failed.
    """
    end, pause = time.monotonic() + self._wait, _PAUSES[0]
    while True:
      try:
        return self._observation(self._ask('reset', data, connect=True))
      except ActionError as error:
        raise ServerError(f'reset was refused: {error}') from error
      except (_FullError, OSError, EOFError, TimeoutError) as error:
        self._lose()
        left = end - time.monotonic()
        if left <= 0 or isinstance(error, TimeoutError):
          why = f'{type(error).__name__}: {error}'.removeprefix('_')
          raise ServerError(
            f'{self._url} had no free session for {self._wait:g} s ({why})'
          ) from error
        time.sleep(min(pause, left))
        pause = min(2 * pause, _PAUSES[1])

  def step(self, action: Mapping[str, Any]) -> Observation:
    """Takes an action.

    Raises:
      ActionError: it does not fit.
      ServerError: the episode is lost.
    """
    try:
      return self._observation(self._ask('step', action))
    except (_FullError, OSError, EOFError, TimeoutError) as error:
      self._lose()
      raise ServerError(
        f'{self._url} was lost in an episode ({type(error).__name__}: {error})'
      ) from error

  def close(self) -> None:
    if self._connection is not None:
      with contextlib.suppress(OSError, EOFError):
        self._send({'type': 'close'})
    self._lose()

  def _lose(self) -> None:
    self._connection = None
    self._open.close()

  def _ask(
    self, kind: str, data: Mapping[str, Any], connect: bool = False
  ) -> dict[str, Any]:
    """Sends a message and returns the answer."""
    if self._connection is None:
      if not connect:
        raise EOFError('the connection is closed')
      self._connection = self._open.enter_context(
        _connection(self._url, self._seconds)
      )
    # A server that is full says so and closes, perhaps before it is asked.
    with contextlib.suppress(EOFError):
      self._send({'type': kind, 'data': dict(data)})
    return self._receive()

  def _send(self, message: Mapping[str, Any]) -> None:
    with _closing_as_eof():
      self._connection.send(json.dumps(message))

  def _receive(self) -> dict[str, Any]:
    with _closing_as_eof():
      text = self._connection.recv(self._seconds)
    try:
      answer = json.loads(text)
      kind, data = answer['type'], answer['data']
      if kind == 'error':
        code, why = str(data['code']), str(data['message'])[:_ERROR]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
      raise ServerError(
        f'{self._url} must send OpenEnv messages, got {text[:_ERROR]!r}'
      ) from error
    if kind != 'error':
      return answer
    if code == 'CAPACITY_REACHED':
      raise _FullError(why)
    if code == 'VALIDATION_ERROR':
      raise ActionError(why)
    raise ServerError(f'{self._url} answered {code}: {why}')

  def _observation(self, answer: Mapping[str, Any]) -> Observation:
    match answer:
      case {
        'type': 'observation',
        'data': {
          'observation': dict(fields),
          'reward': int() | float() | None as reward,
          'done': bool(done),
        },
      }:
        return Observation(fields, float(reward or 0.0), done)
    raise ServerError(
      f'{self._url} must send an observation with reward and done, got'
      f' {str(answer)[:_ERROR]}'
    )


@contextlib.contextmanager
def _closing_as_eof():
  """Converts the package's closed connection into EOFError."""
  from websockets.exceptions import ConnectionClosed, WebSocketException

  try:
    yield
  except ConnectionClosed as error:
    raise EOFError(f'the connection has ended: {error}') from error
  except WebSocketException as error:
    raise EOFError(f'the connection has failed: {error}') from error


@contextlib.contextmanager
def _connection(url: str, seconds: float):
  """Connects, without a proxy for addresses of this machine."""
  from websockets.sync import client

  near = urllib.parse.urlsplit(url).hostname in LOOPBACK
  with contextlib.ExitStack() as stack:
    with _closing_as_eof():
      opened = stack.enter_context(
        client.connect(
          url,
          open_timeout=seconds,
          close_timeout=_CLOSE,
          max_size=LIMIT,
          proxy=None if near else True,
        )
      )
    yield opened


def address_parts(address: str) -> urllib.parse.SplitResult:
  """Splits the address of a server into the parts of a WebSocket URL.

  Raises:
    ValueError: it is malformed.
  """
  parts = urllib.parse.urlsplit(address)
  schemes = {'http': 'ws', 'https': 'wss', 'ws': 'ws', 'wss': 'wss'}
  try:
    port = parts.port
  except ValueError:
    port = -1
  if parts.scheme not in schemes or not parts.hostname or port == -1:
    raise ValueError(
      'env.address must be the URL of a server, such as'
      f" 'http://127.0.0.1:8000', got {address!r}"
    )
  return parts._replace(scheme=schemes[parts.scheme], query='', fragment='')


def _path(address: str) -> str:
  return address_parts(address).path.rstrip('/').removesuffix('/ws')


def action_schema(address: str, seconds: float) -> Mapping[str, Any]:
  """Fetches the JSON Schema of the server's actions; {} if it has none."""
  parts = address_parts(address)
  url = urllib.parse.urlunsplit(
    parts._replace(
      scheme={'ws': 'http', 'wss': 'https'}[parts.scheme],
      path=f'{_path(address)}/schema',
    )
  )
  handlers = []
  if parts.hostname in LOOPBACK:
    handlers = [urllib.request.ProxyHandler({})]
  try:
    opener = urllib.request.build_opener(*handlers)
    with opener.open(url, timeout=seconds) as answer:
      schema = json.loads(answer.read(LIMIT))
  except (OSError, ValueError, RecursionError):
    return {}
  action = schema.get('action') if isinstance(schema, dict) else None
  return action if isinstance(action, dict) else {}


def installed() -> None:
  """Raises ValueError where websockets is not installed."""
  try:
    import websockets.sync.client  # noqa: F401
  except ImportError as error:
    raise base.missing('websockets', 'host') from error
