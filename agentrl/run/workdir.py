"""Run folder: reads and writes its config, loads and exports its policy."""

import json
from collections.abc import Iterator
from typing import Any

from absl import logging
from ml_collections import ConfigDict

from agentrl import mesh, renames
from agentrl.configs import base, envs
from agentrl.run import pretrained
from agentrl.run.check import fields
from agentrl.runtime import storage

CONFIG = 'config.json'
# Entries that came later, with the meaning of a run that lacks them.
DEFAULTS_OF_OLD_RUNS = {
  'model': {'path': '', 'random': False, 'attention': 'xla'},
  'lora': {'rank': 0, 'alpha': 16.0, 'pattern': 'q|k|v|o', 'path': ''},
  'rollout': {'system': ''},
  'sft': {'store': '', 'mix': ()},
  'log': {'groups': 1, 'every': 1, 'eval_trajectories': 4, 'wandb': ''},
  'role': {},
  'mix': {},
  'stage': {},
  'mesh': {},
  'service': {},
  'reading': {},
  'host': {},
  'judging': {
    name.partition('.')[2]: field.default
    for name, field in base.FIELDS.items()
    if name.startswith('judging.')
  },
}
# What decides which other fields a config has, and what they are.
FIRST = ('env.name', 'method', 'model.path', 'model.')
_WRONG_JSON = (ValueError, TypeError, AttributeError, KeyError)
REMAT = {False: 'none', True: 'layer'}  # before it was a word


class DamagedError(ValueError):
  """A config is there and cannot be read."""


def text_of(c: ConfigDict) -> str:
  return c.to_json(indent=2, sort_keys=True) + '\n'


def same_config(c: ConfigDict, workdir: str) -> None:
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
    if name.startswith(('mesh.', 'log.wandb')):
      logging.info('Going on with %s=%s, %s before', name, new, old)
      continue
    raise ValueError(
      f'{path} is of another run: config.{name} is {old!r} there and'
      f' {new!r} here; use a new --workdir, or to go on with that run set'
      f' --config.{name} to what it is there'
    )


def differences(one: ConfigDict, other: ConfigDict) -> Iterator[tuple]:
  """Yields (dotted name, value in one, value in the other) of differences.

  What the others follow from comes first: the environment, method and model.
  """
  there, here = (
    fields.flat(ConfigDict(json.loads(text_of(c)))) for c in (one, other)
  )
  names = sorted(there.keys() | here.keys())
  for name in sorted(names, key=_rank):
    old, new = (x.get(name, 'missing') for x in (there, here))
    if old != new:
      yield name, old, new


def _rank(name: str) -> tuple[int, str]:
  ranks = [i for i, x in enumerate(FIRST) if name.startswith(x)]
  return ranks[0] if ranks else len(FIRST), name


def keep_config(c: ConfigDict, workdir: str) -> None:
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
  """Reads the config of a run; raises ValueError for another folder."""
  path = storage.path(workdir) / CONFIG
  try:
    return ConfigDict(migrate(json.loads(path.read_bytes())))
  except FileNotFoundError as error:
    raise ValueError(
      f'{workdir} is not the folder of a run: {path} cannot be read'
      f' ({error.strerror or "it is not there"}); name the --workdir of a run'
    ) from error
  except (OSError, RecursionError, *_WRONG_JSON) as error:
    raise DamagedError(
      f'{path} is damaged ({error}); name the --workdir of another run'
    ) from error


def migrate(config: dict[str, Any]) -> dict[str, Any]:
  """The config of a run under today's names, with what came after it."""
  config = renames.migrate_config(config)
  for part, entries in DEFAULTS_OF_OLD_RUNS.items():
    config[part] = entries | config.get(part, {})
  config.setdefault('judge', ())
  config.setdefault('stages', base.FIELDS['stages'].default)
  for field in ('prefix', 'prefix_source'):
    config.setdefault(field, base.FIELDS[field].default)
  if 'oracle' in envs.ENV.get(config['env'].get('name'), ()):
    config['env'].setdefault('oracle', '')
  model, rollout = config['model'], config['rollout']
  rollout.setdefault('chat_format', 'bare' if model['path'] else 'auto')
  if model.get('remat') in REMAT:
    model['remat'] = REMAT[model['remat']]
  if config['host']:
    of_old = {name: field.default for name, field in envs.HOST.items()}
    config['host'] = of_old | config['host']
  for name, service in config['service'].items():
    config['service'][name] = base.nested(base.SERVICE) | service
  for role in config['role'].values():
    role.setdefault('run', '')
    if 'lr' in role:
      role.setdefault('optimizer', 'adam')
      role.setdefault('qk_clip', 0.0)
  if 'model' in config['mesh']:  # of two axes; rows stored parameters
    old = config['mesh']
    config['mesh'] = dict.fromkeys(mesh.AXES, 1) | dict(
      fsdp=old['data'], tensor=old['model'], explicit=old['explicit']
    )
  return config


def same_model(c: ConfigDict, field: str = 'init') -> None:
  """Raises ValueError if the run that c.<field> names has another model."""
  run = fields.flat(c)[field]
  theirs = read_config(run).model
  for name in c.model:
    old, new = theirs.get(name), c.model[name]
    if old != new and name not in (*pretrained.FREE, 'random'):
      raise ValueError(
        f'{field}={run!r} is a run of another model: model.{name} is {old!r}'
        f' there and {new!r} here; set --config.model.{name}={old} or take'
        ' another run'
      )
