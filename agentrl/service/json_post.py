"""JSON posted to a server: what failed for good, and what to try again.

The key is in no error, whatever the server repeats, and goes to no other
server: redirects are refused.
"""

import email.utils
import http.client
import math
import random
import time
import urllib.error
import urllib.request
from collections.abc import Callable

from agentrl.service.base import ServiceFault

WAIT = 60.0  # most seconds between two tries
SHOWN = 200  # characters of a server's error
_AGAIN = {408, 409, 429}  # and 500 and more: another try may succeed


class Again(Exception):
  """A failure that another try may mend."""

  def __init__(self, text: str, seconds: float = 0.0):
    """Waits at least `seconds`."""
    super().__init__(text)
    self.seconds = seconds


def post(url: str, data: bytes, secret: str, timeout: float) -> bytes:
  """Returns the body of the response.

  Args:
    secret: key that is shown, '' for none
    timeout: seconds
  Raises:
    ServiceFault: the request is refused.
    Again: the server has failed, or cannot be reached.
  """
  headers = {'Content-Type': 'application/json', 'Accept': 'application/json'}
  if secret:
    headers['Authorization'] = f'Bearer {secret}'
  request = urllib.request.Request(url, data, headers, method='POST')
  try:
    with _OPENER.open(request, timeout=timeout) as response:
      body = response.read()
      # An answer is written to the run folder, whatever it repeats.
      return body.replace(secret.encode(), b'***') if secret else body
  except urllib.error.HTTPError as error:
    why = f'{url} answered {error.code}: {_shown(_body(error), secret)}'
    if error.code in _AGAIN or error.code >= 500:
      seconds = retry_after(error.headers.get('Retry-After', ''))
      raise Again(why, seconds) from None
    raise ServiceFault(why) from None
  except (OSError, http.client.HTTPException) as error:
    why = _shown(f'{type(error).__name__}: {error}'.encode(), secret)
    raise Again(f'{url} cannot be reached ({why})') from None


def _body(error: urllib.error.HTTPError) -> bytes:
  """Reads the beginning of a server's text on an error, if it can be read."""
  try:
    return error.read(1 << 16)
  except (OSError, http.client.HTTPException):
    return b''


def pause(tried: int, error: Again) -> float:
  """Returns the seconds to wait after `tried` tries."""
  seconds = min(WAIT, 2.0 ** (tried - 1) * random.uniform(0.5, 1))
  return max(seconds, min(error.seconds, WAIT))


def _shown(data: bytes, secret: str) -> str:
  """Shows the beginning of a text without the key, which servers may repeat."""
  text = ' '.join(data.decode(errors='replace').split())
  return (text.replace(secret, '***') if secret else text)[:SHOWN]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
  """Refuses redirects, which would carry the key to another server."""

  def redirect_request(self, *_):
    return None


_OPENER = urllib.request.build_opener(_NoRedirect)


def retry_after(text: str, now: Callable[[], float] = time.time) -> float:
  """Reads a Retry-After header's seconds, a number or a date; 0 if neither."""
  try:
    seconds = float(text)
  except ValueError:
    try:
      seconds = email.utils.parsedate_to_datetime(text).timestamp() - now()
    except (ValueError, TypeError, OverflowError):
      return 0.0
  return seconds if 0 < seconds < math.inf else 0.0
