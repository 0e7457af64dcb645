"""Run folder: reads and writes its config, loads and exports its policy."""

import hashlib
import importlib
import importlib.util
import json
import pathlib
from collections.abc import Iterator
from typing import Any

from absl import logging
from ml_collections import ConfigDict

from agentrl import configs
from agentrl.configs.config import Config, to_dict
from agentrl.run import pretrained
from agentrl.run.check import fields
from agentrl.runtime import objects, storage

CONFIG = 'config.json'
# What decides which other fields a config has, and what they are.
FIRST = ('env.name', 'method', 'model.path', 'model.')
# Arguments of agentrl.Run that set a field to a Python object.
ARGUMENTS = {
  'env.name': 'env=',
  'env.verifier': 'verifier=',
  'reward': 'reward=',
}
# Fields that say where and beside what a run is computed, not what it computes.
PLACED = (
  'mesh.',
  'staleness.depth',
  'staleness.devices',
  'staleness.jobs',
  'staleness.address',
  'log.wandb',
)
MISSING = 'missing'  # stands for the value of a field that there is not
_WRONG_JSON = (ValueError, TypeError, AttributeError, KeyError)


class DamagedError(ValueError):
  """A config is there and cannot be read."""


def text_of(c: Config | ConfigDict) -> str:
  return json.dumps(to_dict(c), indent=2, sort_keys=True) + '\n'


def same_config(c: Config | ConfigDict, workdir: str) -> None:
  """Refuses to mix two configs in one folder, naming what differs.

  Where arrays lie is no part of an experiment: a run goes on on any mesh. Nor
  is who else gets its numbers. One that cannot be read differs in nothing: the
  checkpoints say whether they are of this model.
  """
  path = storage.path(workdir) / CONFIG
  if not path.exists():
    return
  try:
    there = read_config(workdir)
  except DamagedError as error:
    logging.warning('%s; going on with the config given', error)
    return
  for name, old, new in differences(there, c):
    if name.startswith(PLACED) or _is_new(c, name, old, new):
      logging.info('Going on with %s=%r, %r before', name, new, old)
      continue
    raise ValueError(
      f'{path} is of another run: config.{name} is {old!r} there and'
      f' {new!r} here; use a new --workdir{_to_go_on(name, old, new)}'
    )


def _is_new(c: Config | ConfigDict, name: str, old: Any, new: Any) -> bool:
  """Returns whether a setting was added since and has its default."""
  if old != MISSING:
    return False
  try:
    default = fields.default_of(c, name)
  except (KeyError, ValueError):
    return False
  return json.loads(json.dumps(default)) == new


def fingerprint(c: Config | ConfigDict) -> str:
  """Returns a digest of what decides the numbers of a run."""
  values = fields.flat(json.loads(text_of(c)))
  own = {k: x for k, x in values.items() if not k.startswith(PLACED)}
  text = json.dumps(own, sort_keys=True)
  return hashlib.sha256(text.encode()).hexdigest()[:16]


def _to_go_on(name: str, old: Any, new: Any) -> str:
  """Says how to go on with a run whose field `name` is `old`."""
  held = old if isinstance(old, list | tuple) else [old]
  if any(map(objects.is_local, held)):
    argument = ARGUMENTS.get(name, f'changes={{{name!r}: ...}}')
    return (
      ', or to go on with that run pass the Python object that it began with to'
      f' agentrl.Run, as {argument}'
    )
  if MISSING in (old, new):
    return ''
  return f', or to go on with that run set --config.{name} to what it is there'


def differences(
  one: Config | ConfigDict, other: Config | ConfigDict
) -> Iterator[tuple]:
  """Yields (dotted name, value in one, value in the other) of differences.

  What the others follow from comes first: the environment, method and model.
  """
  there, here = (fields.flat(json.loads(text_of(c))) for c in (one, other))
  names = sorted(there.keys() | here.keys())
  for name in sorted(names, key=_rank):
    old, new = (x.get(name, MISSING) for x in (there, here))
    if old != new:
      yield name, old, new


def _rank(name: str) -> tuple[int, str]:
  ranks = [i for i, x in enumerate(FIRST) if name.startswith(x)]
  return ranks[0] if ranks else len(FIRST), name


def keep_config(c: Config, workdir: str) -> None:
  """Writes the resolved config, whole or not at all; a damaged one stays."""
  path = storage.path(workdir) / CONFIG
  path.parent.mkdir(parents=True, exist_ok=True)
  if path.exists():
    try:
      read_config(workdir)
    except DamagedError:
      storage.set_aside(path, 'is damaged')
  storage.write(path, text_of(c))


def read_config(workdir: str) -> ConfigDict:
  """Reads the config of a run.

  Raises ValueError for a folder of none, or of one that another version wrote.
  """
  path = storage.path(workdir) / CONFIG
  storage.check_regular(path)
  try:
    c = ConfigDict(json.loads(path.read_bytes()))
    bring_components(str(c.get('method', '')))
  except FileNotFoundError as error:
    raise ValueError(
      f'{workdir} is not the folder of a run: {path} cannot be read'
      f' ({error.strerror or "it is not there"}); name the --workdir of a run'
    ) from error
  except (OSError, RecursionError, *_WRONG_JSON) as error:
    raise DamagedError(
      f'{path} is damaged ({error}); name the --workdir of another run'
    ) from error
  try:
    added = fields.fill(c)
    fields.check_names(c)
  except ValueError as error:
    raise ValueError(
      f'{path} was written by another version of agentrl: {error}; use that'
      ' version, or another --workdir'
    ) from error
  if added:
    logging.info('%s has no %s: taken to be the default', path, added)
  return c


def is_run(folder: str) -> bool:
  """Returns whether it is a run; weights, or a name of the hub, are none."""
  if any(pathlib.Path(folder).glob('*.safetensors')):
    return False
  return (storage.path(folder) / CONFIG).exists()


def bring_components(method: str) -> None:
  """Imports the config of a method, which may bring components along.

  A method that is none of ours brings none.
  """
  name = f'{configs.__name__}.{method}'
  try:
    spec = importlib.util.find_spec(name) if method else None
  except ModuleNotFoundError:  # of what stands before its last dot
    return
  if spec is not None:
    importlib.import_module(name)


def same_model(c: Config, field: str = 'init') -> None:
  """Raises ValueError if the run that c.<field> names has another model."""
  run = fields.flat(c)[field]
  theirs = read_config(run).model
  ours = to_dict(c.model)
  for name in ('path', *ours):  # words before sizes, which follow from them
    old, new = theirs.get(name), ours[name]
    if old != new and name not in (*pretrained.FREE, 'random'):
      raise ValueError(
        f'{field}={run!r} is a run of another model: model.{name} is {old!r}'
        f' there and {new!r} here; set --config.model.{name}={old} or take'
        ' another run'
      )
