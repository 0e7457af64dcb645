"""Gateway: an HTTP server in a thread, in front of a generator.

    with Gateway(driver, model='policy', context=4096) as gateway:
      address = gateway.open('a', Session(...))   # for a program
      ...
      session = gateway.close_session('a')        # its calls and its reward

It listens on this machine alone unless another host is given, and every client
must show the key of the run.
"""

import asyncio
import secrets
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from agentrl.gateway.answers import TokenGenerator
from agentrl.gateway.app import GatewayApp, GatewayLimits
from agentrl.gateway.connections import Connections, affordable
from agentrl.gateway.served import ServedModel
from agentrl.gateway.session import Session

_BACKLOG = 1024  # connections that wait until they are accepted
_READ = 4 << 10  # bytes of one read
_WORKERS = 4  # threads that read large requests
_BURST = 64  # accepted at once, before it is seen how many there are


class Gateway:
  """The server, from its creation to `close`."""

  def __init__(
    self,
    generator: TokenGenerator,
    *,
    model: str,
    context: int,
    host: str = '127.0.0.1',
    port: int = 0,
    limits: GatewayLimits | None = None,
    key: str | None = None,
    update: Callable[[str, int], None] | None = None,
  ):
    """Opens the port and serves.

    Args:
      generator: makes the tokens; its futures may be cancelled
      model: its name for clients
      context: tokens of a conversation, that clients are told
      host: whose connections are taken; this machine's alone by default
      port: 0: any that is free
      key: that clients show; None: drawn; '': none is asked for
      update: takes new weights, see `GatewayApp`
    """
    limits = limits or GatewayLimits()
    self.key = secrets.token_urlsafe(24) if key is None else key
    self._app = GatewayApp(
      generator,
      model=model,
      key=self.key,
      limits=limits,
      context=context,
      host=host,
      update=update,
    )
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    # A socket that does not say it is TCP keeps Nagle's algorithm in asyncio,
    # which holds every reply for 40 ms.
    self._socket = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    self._socket.bind((host, port))
    self._host, self.port = host, self._socket.getsockname()[1]
    connections = Connections(affordable(limits.connections))
    config = uvicorn.Config(
      self._app.asgi,
      http=_protocol(connections, limits.seconds),
      ws='none',
      lifespan='off',
      log_config=None,
      log_level='warning',
      access_log=False,
      backlog=_BURST,
      timeout_keep_alive=60,
      timeout_graceful_shutdown=1,
    )
    self._server = _Server(config)
    self._ready: threading.Event = threading.Event()
    self._thread = threading.Thread(target=self._serve, daemon=True)
    self._thread.start()
    self._ready.wait()

  def __enter__(self) -> 'Gateway':
    return self

  def __exit__(self, *_: Any) -> None:
    self.close()

  def open(self, name: str, session: Session) -> str:
    """Begins a session: -> its address, to which clients add /v1/..."""
    self._loop.call_soon_threadsafe(self._app.add, name, session)
    return f'{self.address}/s/{name}'

  @property
  def address(self) -> str:
    """Of the server, to which clients of served models add /v1/..."""
    host = f'[{self._host}]' if ':' in self._host else self._host
    return f'http://{host}:{self.port}'

  def serve(self, model: ServedModel) -> None:
    """Has the model answer at the routes without a session."""
    self._loop.call_soon_threadsafe(self._app.serve, model)

  def close_session(self, name: str) -> Session:
    """Finishes a session: -> all that it did; later requests are refused."""
    removed = self._app.remove(name)
    return asyncio.run_coroutine_threadsafe(removed, self._loop).result()

  def close(self) -> None:
    """Takes no more requests, and closes all connections."""
    self._server.should_exit = True
    self._thread.join()
    self._socket.close()

  def _serve(self) -> None:
    async def serve() -> None:
      self._loop = asyncio.get_running_loop()
      self._loop.call_soon(self._ready.set)
      self._loop.set_default_executor(ThreadPoolExecutor(_WORKERS))
      await self._server.serve(sockets=[self._socket])

    asyncio.run(serve())


class _Server(uvicorn.Server):
  """Accepts few at once and lets many wait: uvicorn has one number for it."""

  async def startup(self, sockets: list[socket.socket] | None = None) -> None:
    await super().startup(sockets)
    for s in sockets or ():
      s.listen(_BACKLOG)


def _protocol(connections: Connections, seconds: float) -> type:
  """Makes HTTP/1.1 over bounded connections; closes those without a request."""

  class BoundedProtocol(H11Protocol):
    def connection_made(self, transport) -> None:
      super().connection_made(transport)
      # Of each request; the application calls it once the key is right.
      self.app_state = {'admit': lambda: connections.admit(self)}
      # Of one read: what many small parts of a body cost, others wait for.
      transport.max_size = _READ
      self._deadline: asyncio.TimerHandle | None = None
      self._expect()
      connections.join(self)

    def data_received(self, data: bytes) -> None:
      super().data_received(data)
      if self._idle:  # only a part of the next request is there
        self._expect()
      elif self._deadline is not None:
        self._deadline.cancel()
        self._deadline = None

    def connection_lost(self, exc: Exception | None) -> None:
      if self._deadline is not None:
        self._deadline.cancel()  # which would hold what is gone
      connections.leave(self)
      super().connection_lost(exc)

    def on_response_complete(self) -> None:
      super().on_response_complete()
      if self._idle and self.conn.their_state is h11.SEND_BODY:
        self._expect()  # it was answered before its body was there

    @property
    def _idle(self) -> bool:
      return self.cycle is None or self.cycle.response_complete

    def _expect(self) -> None:
      """Gives the next request its time from now on, if it has not begun."""
      if self._deadline is None:
        self._deadline = self.loop.call_later(seconds, self._check)

    def _check(self) -> None:
      self._deadline = None
      if self._idle and not self.transport.is_closing():
        self.transport.close()

  return BoundedProtocol
