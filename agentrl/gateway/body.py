"""Bodies of requests, read within limits of size and time."""

import asyncio

from starlette.requests import Request

from agentrl.gateway.request import RefusedError


async def read(request: Request, most: int, seconds: float) -> bytes:
  """Reads the body of a request.

  Args:
    most: bytes; a larger one is refused before it is held
    seconds: until it is there
  Raises:
    RefusedError: it is too large or too slow.
  """
  size = request.headers.get('content-length', '0')
  if not size.isdigit() or int(size) > most:
    raise _too_large(most)
  parts, total = [], 0
  try:
    async with asyncio.timeout(seconds):
      async for part in request.stream():
        total += len(part)
        if total > most:
          raise _too_large(most)
        parts.append(part)
  except TimeoutError:
    raise RefusedError(
      f'the body did not come within {seconds:g} s', status=408
    ) from None
  return b''.join(parts)


def _too_large(most: int) -> RefusedError:
  return RefusedError(
    f'the body is larger than the {most} bytes that it may have', status=413
  )
