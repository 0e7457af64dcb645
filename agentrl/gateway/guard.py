"""Access checks: a client with the key, or a program of this machine.

A web page can send requests to any address, including local ones. It does not
know the key. Without a key, it is recognised by headers that a browser does not
let it choose:

  Host             the requested name, which may resolve here temporarily
  Origin           the site of the page
  Sec-Fetch-Site   the same, in requests without Origin
  Content-Type     JSON needs the server's consent (CORS), which is never given
"""

import hmac
import ipaddress
import re
import socket

from starlette.requests import Request

from agentrl.gateway.request import RefusedError

_HOST = re.compile(r'(\[[0-9a-f:.]+\]|[^\s:@/\[\]]+)(:\d+)?', re.IGNORECASE)


class Guard:
  """Checks requests before their bodies are read."""

  def __init__(self, key: str, host: str):
    """Stores the key and the names of this server.

    Args:
      key: required of clients; '': none
      host: to listen on
    """
    self._key, self._host = key, host.lower()
    self._anywhere = _is(host, 'is_unspecified')
    self._names = {'localhost', self._host}
    loopback = _is(host, 'is_loopback') or self._host == 'localhost'
    if not key and not loopback:  # a lookup may take seconds
      own = socket.gethostname(), socket.getfqdn()
      self._names |= {x.lower() for x in own}

  def check(self, request: Request) -> None:
    """Raises RefusedError for a wrong key, a web page, or too many clients."""
    if self._key:
      self._check_key(request)
    else:
      self._check_site(request)
    if not request.state.admit():
      raise RefusedError(
        'the gateway has reached its limit of connections; try again later or'
        ' open fewer',
        status=503,
        code='too_many_connections',
      )

  def _check_key(self, request: Request) -> None:
    given = request.headers.get('x-api-key', '')
    scheme, _, bearer = request.headers.get('authorization', '').partition(' ')
    given = bearer if scheme.lower() == 'bearer' else given
    if not hmac.compare_digest(given.encode(), self._key.encode()):
      raise RefusedError(
        'the API key must be the key of this run, which the program was'
        ' started with',
        status=401,
      )

  def _check_site(self, request: Request) -> None:
    host = request.headers.get('host', '')
    if not self._is_own(host):
      raise RefusedError(
        f'without a key Host must name this machine, got {host[:80]!r}; use'
        ' its address, or start the server with a key',
        status=403,
      )
    own = {f'http://{host}'.lower(), f'https://{host}'.lower()}
    origin = request.headers.get('origin')
    site = request.headers.get('sec-fetch-site', 'none')
    if origin is not None and origin.lower() not in own:
      raise _of_page('Origin', origin)
    if site not in ('none', 'same-origin'):
      raise _of_page('Sec-Fetch-Site', site)
    kind = request.headers.get('content-type', '')
    name = kind.partition(';')[0].strip().lower()
    if request.method == 'POST' and name != 'application/json':
      raise RefusedError(
        'without a key Content-Type must be application/json, got'
        f' {kind[:80]!r}',
        status=415,
      )

  def _is_own(self, host: str) -> bool:
    """Tells if no other site can make a name with this Host resolve here."""
    match = _HOST.fullmatch(host)
    if match is None:
      return False
    name = match[1].strip('[]').lower().removesuffix('.')
    # The address itself is no name that could point elsewhere.
    address = _is(name, 'is_loopback') or (self._anywhere and _is(name))
    return address or name in self._names or name.endswith('.localhost')


def _is(name: str, kind: str = 'version') -> bool:
  """Returns whether a host is an IP address of a kind."""
  try:
    return bool(getattr(ipaddress.ip_address(name), kind))
  except ValueError:
    return False


def _of_page(field: str, value: str) -> RefusedError:
  return RefusedError(
    f'without a key {field} must be this server, got {value[:80]!r}; pages of'
    ' other sites are refused',
    status=403,
  )
