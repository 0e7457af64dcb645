"""Large bodies of any shape: answered, and others hardly wait meanwhile."""

import contextlib
import socket
import threading
import time

import pytest

from agentrl.gateway import json_text
from tests import errors
from tests.gateway.connections_test import alone
from tests.gateway.shapes import shapes
from tests.gateway.stub import Client, opened, user

CHAT = 'v1/chat/completions'
SMALL, LARGE = shapes(200_000), shapes((8 << 20) - 64)


@contextlib.contextmanager
def pinging(client):
  """-> seconds of each answer that another client waited for meanwhile"""
  stop, seconds = threading.Event(), []

  def ping():
    while not stop.is_set():
      began = time.perf_counter()
      status, _ = client.send('v1/models', b'', 'GET')
      assert status == 200
      seconds.append(time.perf_counter() - began)
      time.sleep(0.005)

  thread = threading.Thread(target=ping)
  thread.start()
  try:
    yield seconds
  finally:
    stop.set()
    thread.join()


def test_every_shape_is_answered():
  """Refused with a sentence, or done; nothing is left behind of it."""
  with opened(calls=99, row=1_000_000) as (_, client, session):
    for name, (path, body) in SMALL.items():
      assert len(body) > 100_000, name
      status, text = client.send(path, body)
      assert status in (200, 400), (name, text)
      assert status == 200 or len(text) < 1000, name
    assert len(session.graph.calls) == session.counts['calls']
    assert session.counts['cancelled'] == 0


@pytest.mark.parametrize('own', [False, True])
def test_many_empty_messages_do_not_stop_the_server(own):
  """4 MB of them, which is as many as 128,000 messages."""
  said = '{"role":"user","content":""}'
  if own:
    said += ',{"role":"assistant","content":""}'
  count = (4 << 20) // len(said)
  last = '{"role":"user","content":""}'
  body = '{"messages":[' + ','.join([said] * count + [last]) + ']}'
  few = '{"messages":[' + ','.join([said] * 15_000 + [last]) + ']}'
  with opened(calls=99) as (_, client, _session):
    with pinging(client) as seconds:
      for text, sentence in (
        (body, 'parts'),
        (few, 'messages must have at most'),
      ):
        began = time.process_time()
        status, reply = client.post(CHAT, text.encode())
        assert status == 400
        assert sentence in reply['error']['message']
        assert time.process_time() - began < 5
    assert max(seconds) < 5


def test_a_history_as_long_as_the_context():
  """Each message is one token."""
  pair = [user(''), {'role': 'assistant', 'content': ''}]
  with opened(calls=9, row=10**6, context=9000, message=8) as (_, client, _s):
    began = time.process_time()
    reply = client.chat([*pair * 4000, user('')])
    assert reply['usage']['prompt_tokens'] == 8001
    assert time.process_time() - began < 10


@pytest.mark.parametrize('parts', [json_text.PARTS, json_text.PARTS + 1])
def test_as_many_parts_as_there_may_be(parts):
  """Counted outside of strings alone."""
  inside = '[{,' * json_text.PARTS
  text = f'{{"a":"{inside}","b":[' + ','.join('1' * (parts - 5)) + ']}'
  if parts == json_text.PARTS:
    assert len(json_text.loads(text)['b']) == parts - 5
  else:
    with errors.raises(ValueError, f'{json_text.PARTS}'):
      json_text.loads(text)


def test_a_body_in_the_smallest_of_chunks():
  """Each of which costs as much as a large one."""
  with opened() as (_, client, _session), pinging(client) as seconds:
    time.sleep(0.2)
    with socket.create_connection((client.at.hostname, client.at.port)) as s:
      s.sendall(
        f'POST {client.at.path}/{CHAT} HTTP/1.1\r\nHost: x\r\nAuthorization:'
        f' Bearer {client.key}\r\nTransfer-Encoding: chunked\r\n\r\n'.encode()
      )
      s.sendall(b'1\r\n \r\n' * 100_000 + b'2\r\n{}\r\n0\r\n\r\n')
      assert b' 400 ' in s.recv(1000)
    assert max(seconds) < 2


@pytest.mark.nightly
@pytest.mark.parametrize('name', LARGE)
def test_others_hardly_wait(name):
  path, body = LARGE[name]
  with alone(1024) as (_, client):
    other = Client(client.at.geturl(), client.key)
    with pinging(other) as seconds:
      time.sleep(0.5)
      idle, before = max(seconds), len(seconds)
      began = time.perf_counter()
      status, _ = client.send(path, body)
      whole = time.perf_counter() - began
    worst = max(seconds[before:], default=whole)
    print(f'\n{name}: {whole:.2f} s, others {worst:.3f} s, idle {idle:.3f} s')
    assert status in (200, 400)
    assert worst < 0.5
