"""The viewer's server, for the machine it runs on.

It answers GET alone, on loopback, and only under its own name, so that no page
of elsewhere can read from it by pointing a name of its own here.
"""

import http.server
import json
import threading
import urllib.parse
from collections.abc import Mapping
from typing import Any

from agentrl.dataset import logged
from experiments import viewing

HOST = '127.0.0.1'
MOST = 64  # trajectories of one answer


class Handler(http.server.BaseHTTPRequestHandler):
  """Answers one request; `server` is a Server."""

  server: 'Server'
  protocol_version = 'HTTP/1.1'
  server_version, sys_version = 'agentrl', ''

  def do_GET(self):
    url = urllib.parse.urlsplit(self.path)
    words = dict(urllib.parse.parse_qsl(url.query))
    if self.headers.get('Host') not in self.server.names:
      self._answer(403, 'text/plain', 'another host was asked for')
    elif url.path == '/':
      self._answer(200, 'text/html', self.server.text)
    elif url.path in ('/list', '/some'):
      try:
        found = self.server.look(url.path, words)
      except ValueError as error:
        self._answer(400, 'text/plain', str(error))
      else:
        self._answer(200, 'application/json', json.dumps(found))
    else:
      self._answer(404, 'text/plain', 'there is nothing of this name')

  def _answer(self, code: int, kind: str, text: str) -> None:
    data = text.encode()
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
    """Nothing of a request reaches the terminal."""


class Server(http.server.ThreadingHTTPServer):
  """Serves a log on loopback; port 0 takes a free one."""

  daemon_threads = True

  def __init__(self, log: logged.Log, name: str, port: int = 0):
    self._log, self._lock = log, threading.Lock()
    self.text, policy = viewing.page(name)
    self.policy = f"{policy}; connect-src 'self'; frame-ancestors 'none'"
    super().__init__((HOST, port), Handler)
    at = self.server_address[1]
    self.names = {f'{HOST}:{at}', f'localhost:{at}'}
    self.url = f'http://{HOST}:{at}/'

  def look(self, path: str, words: Mapping[str, str]) -> Any:
    if path == '/list':
      asked = viewing.query(words)
      with self._lock:
        self._log.refresh()
      return viewing.listed(self._log, asked)
    index = words.get('i', '').split(',')
    if len(index) > MOST or not all(x.isdecimal() for x in index):
      raise ValueError(f'i= takes up to {MOST} numbers with commas between')
    return viewing.some(self._log, [int(x) for x in index])
