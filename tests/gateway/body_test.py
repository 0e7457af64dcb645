"""Bodies of requests: whole, or refused by size or time."""

import asyncio

import pytest
from starlette.requests import Request

from agentrl.gateway import body
from agentrl.gateway.request import RefusedError
from tests import errors


def read(parts, length=None, seconds=20.0, most=8):
  """The body of these parts; after them nothing more comes."""
  left = [
    {'type': 'http.request', 'body': x, 'more_body': i < len(parts)}
    for i, x in enumerate(parts, 1)
  ]

  async def receive():
    if not left:
      await asyncio.Event().wait()
    return left.pop(0)

  headers = [] if length is None else [(b'content-length', length)]
  scope = {'type': 'http', 'method': 'POST', 'headers': headers}
  return asyncio.run(body.read(Request(scope, receive), most, seconds))


def test_a_body_as_large_as_it_may_be():
  assert read([b'1234', b'5678'], b'8') == b'12345678'
  assert read([b'1234', b'5678']) == b'12345678'


@pytest.mark.parametrize(
  ('parts', 'length'),
  [([b'x'], b'9'), ([b'x'], b'-1'), ([b'12345', b'6789'], None)],
)
def test_one_that_is_too_large(parts, length):
  with errors.raises(RefusedError, '8') as refused:
    read(parts, length)
  assert refused.value.status == 413


def test_one_that_never_comes():
  with errors.raises(RefusedError, '0') as refused:
    read([], b'3', 0.0)
  assert refused.value.status == 408
