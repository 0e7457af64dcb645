"""The viewer's server, for the machine it runs on.

It answers GET alone, on loopback, and only under its own name, so that no page
of elsewhere can read from it by pointing a name of its own here.
"""

import contextlib
import http.server
import json
import socket
import sys
import threading
import urllib.parse
from collections.abc import Mapping

from agentrl.log import trajectories
from agentrl.report.trajectories import page

HOST = '127.0.0.1'
MOST = 64  # trajectories of one answer
CONNECTIONS = 32  # at a time
ANSWERS = 4  # with trajectories in them, at a time
SECONDS = 30.0  # for one request, from its first byte to the answer's last
BUSY = (
  b'HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n'
  b'Connection: close\r\n\r\ntoo many connections at once; try again\n'
)


class Handler(http.server.BaseHTTPRequestHandler):
  """Answers one request; `server` is a Server."""

  server: 'Server'
  protocol_version = 'HTTP/1.1'
  server_version, sys_version = 'agentrl', ''

  def setup(self):
    self.timeout = self.server.seconds  # of one wait
    super().setup()

  def handle_one_request(self):
    """Answers the next request, or hangs up when its time is over.

    A client that sends or takes a byte now and then never lets one wait be
    too long, hence a limit on all of them.
    """
    limit = threading.Timer(self.server.seconds, self._hang_up)
    limit.daemon = True
    limit.start()
    try:
      super().handle_one_request()
    finally:
      limit.cancel()

  def _hang_up(self) -> None:
    with contextlib.suppress(OSError):  # it is closed
      self.connection.shutdown(socket.SHUT_RDWR)

  def do_GET(self):
    try:
      url = urllib.parse.urlsplit(self.path)
      words = dict(urllib.parse.parse_qsl(url.query))
    except ValueError as error:
      self._answer(400, 'text/plain', str(error))
      return
    if self.headers.get('Host') not in self.server.names:
      self._answer(403, 'text/plain', 'another host was asked for')
    elif url.path == '/':
      self._answer(200, 'text/html', self.server.text)
    elif url.path in ('/list', '/some'):
      with self.server.few:
        try:
          listing = self.server.look(url.path, words)
        except ValueError as error:
          self._answer(400, 'text/plain', str(error))
        else:
          self._answer(200, 'application/json', listing)
    else:
      self._answer(404, 'text/plain', 'unknown path')

  def _answer(self, code: int, kind: str, data: str | bytes) -> None:
    data = data.encode() if isinstance(data, str) else data
    self.send_response(code)
    for name, value in {
      'Content-Type': f'{kind}; charset=utf-8',
      'Content-Length': str(len(data)),
      'Content-Security-Policy': self.server.policy,
      'Cache-Control': 'no-store',
      'Cross-Origin-Resource-Policy': 'same-origin',
      'Referrer-Policy': 'no-referrer',
      'X-Content-Type-Options': 'nosniff',
    }.items():
      self.send_header(name, value)
    self.end_headers()
    self.wfile.write(data)

  def log_message(self, *_):
    """Logs nothing: no request reaches the terminal."""


class Server(http.server.ThreadingHTTPServer):
  """Serves a log on loopback; port 0 takes a free one."""

  daemon_threads, request_queue_size = True, CONNECTIONS

  def __init__(
    self,
    log: trajectories.Log,
    name: str,
    port: int = 0,
    seconds: float = SECONDS,
  ):
    self._log, self._lock = log, threading.Lock()
    self.seconds, self.few = seconds, threading.Semaphore(ANSWERS)
    self._room = threading.Semaphore(CONNECTIONS)
    self.text, policy = page.page(name)
    self.policy = f"{policy}; connect-src 'self'; frame-ancestors 'none'"
    super().__init__((HOST, port), Handler)
    at = self.server_address[1]
    self.names = {f'{HOST}:{at}', f'localhost:{at}'}
    self.url = f'http://{HOST}:{at}/'

  def process_request(self, request, client_address):
    if self._room.acquire(blocking=False):
      super().process_request(request, client_address)
    else:
      request.settimeout(1)
      with contextlib.suppress(OSError):  # it did not wait for that
        request.sendall(BUSY)
      self.shutdown_request(request)

  def process_request_thread(self, request, client_address):
    try:
      super().process_request_thread(request, client_address)
    finally:
      self._room.release()

  def handle_error(self, request, client_address):
    """Ignores a client that left or was too slow."""
    if not isinstance(sys.exception(), OSError):
      super().handle_error(request, client_address)

  def look(self, path: str, words: Mapping[str, str]) -> bytes:
    """Returns JSON. Raises ValueError for words that ask for nothing."""
    if path == '/list':
      filters = page.query(words)
      with self._lock:
        self._log.refresh()
      return json.dumps(page.listed(self._log, filters)).encode()
    index = words.get('i', '').split(',', MOST)
    numbers = all(x.isdecimal() and len(x) < 10 for x in index)
    if len(index) > MOST or not numbers:
      raise ValueError(f'i= takes up to {MOST} numbers with commas between')
    return page.some(self._log, [int(x) for x in index], page.ROOM)
