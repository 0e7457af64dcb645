"""New weights of a served model, each version newer than the last."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from agentrl.gateway.request import RefusedError, field


class WeightUpdates:
  """Takes versions one after the other, in the thread of the server."""

  def __init__(self, update: Callable[[str, int], None]):
    """Takes `update`: see `GatewayApp`."""
    self._update, self._turn = update, asyncio.Lock()
    self._taken: tuple[str, int] | None = None

  async def take(self, body: Mapping[str, Any]) -> int:
    """Takes the version that a body names: -> the version.

    The one that was taken last may be sent again, as by a client whose answer
    was lost; it is not loaded again.

    Raises:
      RefusedError: the version is faulty, not newer, or cannot be loaded.
    """
    path, version = field(body, 'path', str, ''), body.get('version')
    if type(version) is not int or version < 0:
      raise RefusedError(
        f'version must be an integer from 0 on, got {str(version)[:40]}'
      )
    async with self._turn:
      if self._taken == (path, version):
        return version
      if self._taken is not None and version <= self._taken[1]:
        raise RefusedError(
          f'version must be newer than {self._taken[1]}, which is loaded, got'
          f' {version}',
          status=409,
        )
      try:
        await asyncio.to_thread(self._update, path, version)
      except (ValueError, OSError) as error:
        raise RefusedError(str(error)) from error
      self._taken = path, version
    return version
