"""Environments of an OpenEnv server, which runs apart.

A message of the agent becomes an action: the one field of the action's schema
that is a text takes all of it; with another schema a message is JSON. The
observation's one text is shown; with other fields it is shown as JSON.
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
  """A task is {'seed'}, which `reset` gets."""

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
        f'nothing answers at env.address={self.address!r} ({error}); start the'
        ' OpenEnv server first, or give its address'
      ) from error

  def name(self) -> str:
    """openenv-<hash of all settings>."""
    return task_sampling.name('openenv', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[base.HostTask]:
    """Distinct seeds, without demonstrations; see `base.EnvFamily`."""
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
    """One action; what the server does not accept is invalid."""
    try:
      now = self._session.step(self._action(message))
    except ActionError as error:
      return base.Step(f'This is no action: {error}.', invalid=True)
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
  """The field of an action that is its only one, a text; '': there is none."""
  properties = schema.get('properties')
  if not isinstance(properties, dict):
    return ''
  own = [x for x in properties if x not in _BESIDE]
  only = properties[own[0]] if len(own) == 1 else None
  is_text = isinstance(only, dict) and only.get('type') == 'string'
  return own[0] if is_text else ''


def shown(observation: Observation, field: str) -> str:
  """The text of an observation.

  Args:
    field: that is shown; '': the only text, or else all fields as JSON.

  Raises:
    ValueError: it has no such field.
  """
  fields = observation.fields
  texts = [x for x in fields.values() if isinstance(x, str)]
  if field:
    if field not in fields:
      raise ValueError(
        f'the observation has no field env.shown={field!r}; choose from'
        f' {sorted(fields)}'
      )
    texts = [fields[field]] if isinstance(fields[field], str) else []
    fields = {field: fields[field]}
  if len(texts) == 1:
    return texts[0]
  return json.dumps(fields, ensure_ascii=False)
