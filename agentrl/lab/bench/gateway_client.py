"""Client of the gateway benchmark: plays the sessions that stdin names.

An order is a line of JSON, and so is the count of requests without a message.
"""

import asyncio
import json
import sys
import urllib.parse
from typing import NamedTuple


class Order(NamedTuple):
  """What to send: `requests` of `size` bytes to each address, one by one."""

  addresses: list[str]
  key: str
  requests: int
  size: int
  load: int  # a number of its own, so that no two texts are alike


def text_of(load: int, session: int, i: int, size: int) -> str:
  """Returns a text that no other call begins with."""
  return f'{load}.{session}.{i}.'.ljust(max(4, size - 60), 'x')


async def _play(order: Order, session: int) -> int:
  at, errors = urllib.parse.urlsplit(order.addresses[session]), 0
  reader, writer = await asyncio.open_connection(at.hostname, at.port)
  for i in range(order.requests):
    text = text_of(order.load, session, i, order.size)
    body = json.dumps({'messages': [{'role': 'user', 'content': text}]})
    head = (
      f'POST {at.path}/v1/chat/completions HTTP/1.1\r\nHost: x\r\n'
      f'Authorization: Bearer {order.key}\r\n'
      f'Content-Length: {len(body)}\r\n\r\n'
    )
    writer.write(f'{head}{body}'.encode())
    lines = (await reader.readuntil(b'\r\n\r\n')).decode().split('\r\n')
    fields = dict(x.lower().split(': ', 1) for x in lines[1:] if ': ' in x)
    reply = await reader.readexactly(int(fields['content-length']))
    errors += b'chat.completion' not in reply
  writer.close()
  return errors


async def play(order: Order) -> int:
  """Plays all sessions at once; returns how many requests failed."""
  sessions = range(len(order.addresses))
  return sum(await asyncio.gather(*(_play(order, x) for x in sessions)))


if __name__ == '__main__':
  for line in sys.stdin:
    print(asyncio.run(play(Order(**json.loads(line)))), flush=True)
