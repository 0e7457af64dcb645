"""Configs of runs that are given Python objects: each becomes a name in it.

The names, and what they stand for, are those of `runtime.objects`. Rows are
data and become a file of the task sets' folder, named by what it holds.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from ml_collections import ConfigDict

from agentrl.env import base
from agentrl.run import config_file
from agentrl.run.check import reward_checks
from agentrl.runtime import objects, storage

JSONL = 'jsonl'
# A method, the path of a config file, or its value.
Given: TypeAlias = str | ConfigDict


def config(
  given: Given,
  changes: Mapping[str, Any],
  *,
  env: Any = None,
  rows: Iterable[Mapping[str, Any]] | None = None,
  verifier: Callable | str | None = None,
  reward: Any = None,
) -> ConfigDict:
  """Returns the config with changes, and with the names of objects.

  Arguments are those of `Run`.

  Raises:
    ValueError: an object does not fit, or is named twice.
  """
  own: dict[str, Any] = {}
  name = ''
  if env is not None:
    name, own = _environment(env)
  elif rows is not None or verifier is not None:
    name = JSONL
  c = _loaded(given, name)
  if verifier is not None:
    own['env.verifier'] = _called('verifier', verifier)
  if reward is not None:
    own['reward'] = _rewards(reward)
  if rows is not None:
    own['env.path'] = ''
  if twice := sorted(own.keys() & changes.keys()):
    raise ValueError(
      f'changes must not have {twice[0]!r}, which an argument of Run sets too'
    )
  for field, argument in (('env.path', 'rows'), ('env.verifier', 'verifier')):
    if field in own and c.env.name != JSONL:
      raise ValueError(
        f'{argument}= is for env={JSONL!r}, got env.name={c.env.name!r};'
        ' leave one of them out'
      )
  named = {
    path: objects.name_of(x) if callable(x) else x
    for path, x in changes.items()
  }
  c = config_file.change(c, named | own)
  if rows is not None:
    c.env.path = _file(rows, c.data)
  return c


def _loaded(given: Given, env: str) -> ConfigDict:
  """Loads a config with an environment; '': its own."""
  if isinstance(given, str):
    file, _, argument = given.partition(':')
    named = f'env={env}' if env else ''
    argument = ','.join(filter(None, (argument, named)))
    given = config_file.load(f'{file}:{argument}' if argument else file)
  if env and given.env.name != env:
    raise ValueError(
      f"env= must equal the config's env.name={given.env.name!r}, got"
      f" {env!r}; name the config by a text such as 'grpo:tiny', which Run"
      ' loads with the environment, and pass the argument of its get_config on'
      ' to base.get_config'
    )
  return given


def _environment(env: Any) -> tuple[str, dict[str, Any]]:
  """Returns the name of an environment, and the settings of an instance."""
  if isinstance(env, str):
    return env, {}
  family = env if isinstance(env, type) else type(env)
  if wrong := base.misfit(family):
    if not {'reset', 'step'} - {*dir(family)}:
      wrong = 'it plays tasks, and a family makes them; pass the family'
    raise ValueError(f'env={env!r:.60} must be an EnvFamily: {wrong}')
  settings = {} if env is family else _settings(env)
  return objects.name_of(family), settings


def _settings(family: Any) -> dict[str, Any]:
  return {
    f'env.{f.name}': vars(family)[f.name] for f in dataclasses.fields(family)
  }


def _called(argument: str, f: Any) -> str:
  """Returns the name of a function; a name is one already."""
  if isinstance(f, str):
    return f
  if not callable(f):
    raise ValueError(
      f'{argument} must be a function or the name of one, got {f!r:.60}'
    )
  return objects.name_of(f)


def _rewards(reward: Any) -> tuple[str, ...]:
  several = reward if isinstance(reward, list | tuple) else [reward]
  for f in several:
    if callable(f):
      reward_checks.function(f)
  return tuple(_called('reward', f) for f in several)


def _file(rows: Iterable[Mapping[str, Any]], folder: str) -> str:
  """Writes rows as JSON lines; returns the path, which names the content."""
  lines = []
  if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
    raise ValueError(f'rows must be a list of dicts, got {rows!r:.60}')
  for i, row in enumerate(rows):
    try:
      lines.append(json.dumps(dict(row), allow_nan=False))
    except RecursionError as error:
      raise ValueError(f'rows[{i}] must not be nested so deeply') from error
    except (TypeError, ValueError) as error:
      raise ValueError(
        f'rows[{i}] must be a dict of what JSON can hold, got {row!r:.60}'
        f' ({error})'
      ) from error
  if not lines:
    raise ValueError('rows must hold at least one row, got none')
  text = '\n'.join(lines) + '\n'
  digest = hashlib.sha256(text.encode()).hexdigest()[:8]
  path = os.path.join(folder, f'rows-{digest}.jsonl')
  os.makedirs(folder, exist_ok=True)
  storage.write_once(path, text)
  return path
