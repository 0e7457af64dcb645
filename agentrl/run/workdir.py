"""Run folder: reads and writes its config, loads and exports its policy."""

import json
import os
import pathlib
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

import jax
from absl import logging
from ml_collections import ConfigDict

from agentrl import mesh, renames
from agentrl.configs import base, envs, stages
from agentrl.learner import algorithm, update
from agentrl.model import hf_config, hf_weights, peft, shared_base
from agentrl.nn import lora
from agentrl.run import algorithm as algorithm_lib
from agentrl.run import build, config_file, pretrained
from agentrl.run.check import fields
from agentrl.run.stage import stage_state
from agentrl.runtime import checkpoint, storage
from agentrl.types import TrainState

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
  """(dotted name, value in one, value in the other) of what differs.

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
  """The config of a run. Raises ValueError for a folder that is none."""
  path = storage.path(workdir) / CONFIG
  try:
    config = ConfigDict(migrate(json.loads(path.read_bytes())))
    config_file.bring_components(str(config.get('method', '')))
    return config
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


def load(c: ConfigDict, shape, workdir: str) -> tuple[int, TrainState]:
  """(step, state) of the newest checkpoint of the run of config c."""
  configs = [plan.config for plan in stages.plans(c)] or [c]
  algorithms = [algorithm_lib.make_algorithm(x, shape) for x in configs]
  state = update.init(stage_state.union(algorithms), jax.random.key(c.seed))
  # Memories are part of what was saved, and as large as batches make them.
  if remembering := [x for x in configs if x.memory]:
    built = [build.experiment(x) for x in remembering]
    state = stage_state.init_memory(built, state)
  checkpoints = checkpoint.Checkpoints(os.path.join(workdir, 'checkpoints'))
  restored = checkpoints.latest(state)
  checkpoints.close()
  if not restored:
    raise ValueError(
      f'{workdir} holds no checkpoint yet; let that run go on until it saves'
      f' one (every {c.checkpoint.every} steps and at its end)'
    )
  return restored[0], restored[1]


def start(c: ConfigDict, shape) -> dict[str, Any] | None:
  """The policy that a run begins with; None: randomly initialised."""
  if c.init:
    logging.info('Beginning with the policy of %s', c.init)
    return policy(shape, c.init)
  if c.model.path and not c.model.random:
    logging.info('Beginning with the weights of %s', c.model.path)
    params = pretrained.weights(c, shape)
    if c.lora.path:
      logging.info('Beginning with the adapter of %s', c.lora.path)
      params |= {shared_base.OWN: peft.read(c.lora.path, shape)[1]}
    return params
  return None


def policy(shape, workdir: str) -> dict[str, Any]:
  """The parameters of a run's newest policy, an adapter merged into them."""
  c = read_config(workdir)
  _, state = load(c, shape, workdir)
  context = algorithm_lib.make_algorithm(c, shape).context
  return lora.merge(algorithm.full_params(context, state.params))


def load_roles(
  experiments: Sequence[build.Experiment], state: TrainState
) -> TrainState:
  """Loads the roles that are policies of other runs, as they are now."""
  params, loaded = {**state.params}, dict[str, str]()
  for s in experiments:
    loaded |= {name: x.run for name, x in s.config.role.items() if x.run}
  for name, run in loaded.items():
    logging.info('Role %s is the policy of %s', name, run)
    params[name] = policy(experiments[0].shape, run)
  return state.replace(params=params)


def export(workdir: str, out: str) -> None:
  """Writes a run's newest policy as a checkpoint, with its tokenizer's files.

  Value heads and other roles are left out; numbers are of the dtype that the
  checkpoint it began from names.

  Raises: ValueError if the run began from none, or `out` holds weights.
  """
  c = read_config(workdir)
  if not c.model.path:
    raise ValueError(
      f'{workdir} is a run of a model of its own, which is of no family of'
      ' checkpoints; export a run that began with --config.model.path'
    )
  source, out = hf_weights.locate(c.model.path), pathlib.Path(out)
  shape = pretrained.language(c).shape
  hf_weights.write(out, hf_config.read(source), policy(shape, workdir))
  for pattern in hf_weights.TEXTS:
    for file in source.glob(pattern):
      if not (out / file.name).exists() and file.name != hf_weights.INDEX:
        shutil.copy(file, out)


def load_policy_params(
  alg, weights: dict[str, Any], state: TrainState
) -> TrainState:
  """Loads policy parameters into the state; those it lacks stay as they are.

  An adapter that is not among them stays, on another base.
  """
  share = alg.context.modules[update.POLICY].share
  params = {**state.params}
  for role in (update.POLICY, *([share.role] if share else [])):
    ours = params[role]
    params[role] = {name: weights.get(name, x) for name, x in ours.items()}
  return state.replace(params=params)
