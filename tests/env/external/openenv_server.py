"""A server that speaks as openenv 0.10.0 does, an environment a session.

`echo` pays 0.5 for a text and ends at the third, or at 'stop'; texts that
begin with '!' make it misbehave.
"""

import contextlib
import json
import threading
import time

SCHEMA = {'properties': {'message': {'type': 'string'}, 'metadata': {}}}


class Server:
  """Open while it is entered, at a free port of this machine.

  capacity: sessions at a time
  """

  def __init__(self, capacity=64, schema=SCHEMA, port=0):
    from websockets.sync import server

    self.capacity, self.schema = capacity, schema
    self.active, self.most, self.refused = 0, 0, 0
    self.resets = []
    self._lock = threading.Lock()
    self._server = server.serve(
      self._session, '127.0.0.1', port, process_request=self._request
    )
    self.port = self._server.socket.getsockname()[1]
    self.address = f'http://127.0.0.1:{self.port}'
    self._connections = set()
    self._thread = threading.Thread(target=self._server.serve_forever)

  def __enter__(self):
    self._thread.start()
    return self

  def __exit__(self, *_):
    self._server.shutdown()
    self.drop()
    self._thread.join()

  def drop(self):
    """Ends all connections, as a server that dies does."""
    for connection in list(self._connections):
      with contextlib.suppress(OSError):
        connection.socket.shutdown(2)

  def _request(self, connection, request):
    if request.path == '/schema':
      return connection.respond(200, json.dumps({'action': self.schema}))
    return None

  def _session(self, connection):
    with self._lock:
      full = self.active >= self.capacity
      self.active += not full
      self.refused += full
      self.most = max(self.most, self.active)
    if full:
      connection.send(error('CAPACITY_REACHED', 'all sessions are taken'))
      return
    self._connections.add(connection)
    try:
      self._play(connection)
    finally:
      self._connections.discard(connection)
      with self._lock:
        self.active -= 1

  def _play(self, connection):
    turn, seed = 0, None
    for raw in connection:
      message = json.loads(raw)
      data = message.get('data', {})
      if message['type'] == 'close':
        return
      if message['type'] == 'reset':
        turn, seed = 0, data['seed']
        self.resets.append(data)
        connection.send(observation(f'begin {seed}', None, False))
        continue
      text = data.get('message')
      if not isinstance(text, str):
        connection.send(error('VALIDATION_ERROR', 'Invalid message'))
      elif text.startswith('!'):
        misbehave(connection, text)
      else:
        turn += 1
        connection.send(
          observation(f'{seed}: {text}', 0.5, turn == 3 or text == 'stop')
        )


def observation(text, reward, done, **fields):
  data = {'observation': {'echo': text, **fields}, 'reward': reward}
  return json.dumps({'type': 'observation', 'data': {**data, 'done': done}})


def error(code, text):
  return json.dumps({'type': 'error', 'data': {'message': text, 'code': code}})


def misbehave(connection, text):
  match text:
    case '!raise':
      connection.send(error('EXECUTION_ERROR', 'it broke'))
    case '!garbage':
      connection.send('{')
    case '!deep':
      connection.send('[' * 100_000)
    case '!reward':
      connection.send(observation('', 'much', False))
    case '!large':
      connection.send('x' * (1 << 21))
    case '!silent':
      time.sleep(1)
    case '!leave':
      connection.socket.shutdown(2)
    case '!fields':
      connection.send(observation('a', 0.0, False, other='b', n=[1]))
