"""Environments of a separate OpenEnv server.

A message becomes an action: if the action schema has a single text field, that
field takes the whole message; otherwise the message must be JSON. An
observation with a single text is shown as that text, else as JSON.
"""

import dataclasses
import json
import socket
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from agentrl import domain
from agentrl.env import base, task_sampling
from agentrl.env.external import keywords, openenv_client
from agentrl.env.external.openenv_client import ActionError, Observation

_BESIDE = ('metadata', 'tools')  # fields of actions that an agent does not set
_PROBE = 5.0  # seconds for a server to accept a connection


@dataclasses.dataclass(frozen=True)
class OpenEnv:
  """A task is {'seed'}, which is passed to `reset`."""

  address: str = ''  # of the server, as 'http://127.0.0.1:8000'
  settings: str = ''  # that reset gets beside the seed, as in 'level=3'
  action: str = ''  # field of the action that a message fills; '': by schema
  shown: str = ''  # field of the observation that is shown; '': its one text
  solved: domain.Number = 1.0  # return from which a task counts as solved
  seconds: domain.Positive = 60.0  # for each answer
  wait: domain.Positive = 300.0  # seconds for a server that is full or away

  columns: ClassVar[tuple[str, ...]] = ()
  system: ClassVar[str] = ''
  worker: ClassVar[str] = 'thread'  # which waits for the server

  def check(self) -> None:
    parts = openenv_client.address_parts(self.address)
    keywords.parse(self.settings)
    openenv_client.installed()
    port = parts.port or {'ws': 80, 'wss': 443}[parts.scheme]
    try:
      socket.create_connection((str(parts.hostname), port), _PROBE).close()
    except OSError as error:
      raise ValueError(
        f'env.address={self.address!r} does not answer ({error}); start the'
        ' OpenEnv server first, or correct its address'
      ) from error

  def name(self) -> str:
    """Returns openenv-<hash of all settings>."""
    return task_sampling.name('openenv', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[base.HostTask]:
    """Yields distinct seeds, without demonstrations; see `base.EnvFamily`."""
    return task_sampling.seeds(split, count, seed)

  def env(self) -> 'OpenEnvEnv':
    openenv_client.installed()
    return OpenEnvEnv(self)


class OpenEnvEnv:
  """Plays episodes in a session."""

  def __init__(self, family: OpenEnv):
    self._family, self._settings = family, keywords.parse(family.settings)
    self._session = openenv_client.OpenEnvSession(
      family.address, seconds=family.seconds, wait=family.wait
    )
    self._field: str | None = family.action or None

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    """Begins the episode of a task's seed."""
    del seed
    self._return = 0.0
    first = self._session.reset({'seed': task['seed'], **self._settings})
    if self._field is None:
      self._field = text_field(
        openenv_client.action_schema(self._family.address, self._family.seconds)
      )
    return shown(first, self._family.shown)

  def step(self, message: str) -> base.Step:
    """Takes one action; one that the server rejects is invalid."""
    try:
      now = self._session.step(self._action(message))
    except ActionError as error:
      return base.Step(f'Invalid action: {error}.', invalid=True)
    self._return += now.reward
    score = float(now.done and self._return >= self._family.solved)
    text = shown(now, self._family.shown)
    return base.Step(text, now.reward, now.done, score)

  def close(self) -> None:
    self._session.close()

  def _action(self, message: str) -> Mapping[str, Any]:
    if self._field:
      return {self._field: message}
    try:
      action = json.loads(message)
    except (ValueError, RecursionError) as error:
      raise ActionError(f'it must be a JSON object ({error})') from error
    if not isinstance(action, dict):
      raise ActionError('it must be a JSON object')
    return action


def text_field(schema: Mapping[str, Any]) -> str:
  """Returns the action's single text field; '' if it has others."""
  properties = schema.get('properties')
  if not isinstance(properties, dict):
    return ''
  own = [x for x in properties if x not in _BESIDE]
  only = properties[own[0]] if len(own) == 1 else None
  is_text = isinstance(only, dict) and only.get('type') == 'string'
  return own[0] if is_text else ''


def shown(observation: Observation, field: str) -> str:
  """Renders an observation as text.

  Args:
    field: to show; '': the only text, else all fields as JSON.

  Raises:
    ValueError: it has no such field.
  """
  fields = observation.fields
  texts = [x for x in fields.values() if isinstance(x, str)]
  if field:
    if field not in fields:
      raise ValueError(
        f'env.shown must be a field of the observation, one of'
        f' {sorted(fields)}, got {field!r}'
      )
    texts = [fields[field]] if isinstance(fields[field], str) else []
    fields = {field: fields[field]}
  if len(texts) == 1:
    return texts[0]
  return json.dumps(fields, ensure_ascii=False)
