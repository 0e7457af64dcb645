"""Stages of a config, and the config of each.

A stage of c.stage runs with c plus the stage's changes: `config_of`. Inherited
settings without a component in the stage (an hp of a loss that it does not
name) are dropped.
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from flax import traverse_util
from ml_collections import ConfigDict

from agentrl import domain, registry
from agentrl.configs import base, envs
from agentrl.configs.config import Config, to_dict
from agentrl.configs.sections import ServiceConfig, StageConfig
from agentrl.domain import suggest

OWN = ('sft', 'rl')  # stages that every config has
RESERVED = ('eval', 'all', 'ended', 'total')  # names that metrics have
# What is of the run and not of a stage, and why.
FIXED = {
  'model': 'all stages train one model',
  'lora': 'all stages train one model',
  'mesh': 'arrays stay where they are',
  'seed': 'randomness is of the run',
  'data': 'there is one folder of data',
  'init': 'it is what the first stage begins with',
  'method': 'it names the run',
  'stages': 'stages have no stages',
  'stage': 'stages have no stages',
  'checkpoint': 'there is one counter of steps',
  'log.every': 'there is one log',
  'log.wandb': 'there is one log',
  'staleness.jobs': 'samplers join a run',
  'staleness.address': 'samplers join a run',
}
# What a sampler is made of; the rest of a config is about learning.
_SAMPLED = (
  'env',
  'recall',
  'rollout',
  'compaction',
  'edits',
  'host',
  'service',
  'judging',
  'judge',
  'reward',
  'collect',
)
_SAMPLED_HP = ('recall', 'rollout', 'collect', 'judge', 'reward')
_BY_NAME = ('coef', 'loss_aggregation', 'select')  # of streams and loss terms


class StagePlan(NamedTuple):
  """Stage before anything is built.

  config: `c` itself if the stage has no changes
  """

  name: str
  kind: str
  steps: int
  config: Any


def plans(
  c: Config | ConfigDict, names: tuple[str, ...] = ()
) -> list[StagePlan]:
  """Returns the stages that have steps to do, in order.

  Args:
    names: in place of c.stages
  """
  out = []
  for name in names or tuple(c.stages):
    if name == 'sft':
      out.append(StagePlan(name, name, 0 if c.init else c.sft.steps, c))
    elif name == 'rl':
      out.append(StagePlan(name, name, c.steps, c))
    else:
      kind, steps = c.stage[name]['kind'], c.stage[name]['steps']
      try:
        out.append(StagePlan(name, kind, steps, config_of(c, name)))
      except ValueError as error:
        raise ValueError(f'stage {name}: {error}') from error
  return [plan for plan in out if plan.steps]


def check(c: Config) -> None:
  """Raises ValueError, one sentence, for a list of stages that cannot be."""
  for name in c.stages:
    if name not in (*OWN, *c.stage):
      close = suggest(name, (*OWN, *c.stage))
      raise ValueError(
        f'c.stages must name stages of c.stage={tuple(c.stage)}, got'
        f' {name!r}{close}; add it by base.stage(c, {name!r}, steps=...)'
      )
  for name, stage in c.stage.items():
    if name in OWN or name in RESERVED:
      raise ValueError(f'c.stage.{name} has a reserved name; rename the stage')
    if name not in c.stages:
      raise ValueError(
        f'c.stage.{name} must be in c.stages, got {tuple(c.stages)}; add'
        f' {name!r} there, or remove the stage'
      )
    for path in changes(stage):
      for fixed, why in FIXED.items():
        if path == fixed or path.startswith(f'{fixed}.'):
          raise ValueError(
            f'stage.{name}.{path} must not differ between stages ({why}); set'
            f' {path} for the whole run'
          )


def changes(stage: Mapping[str, Any]) -> dict[str, Any]:
  """Returns {path: value} of what differs in a stage."""
  own = domain.fields(StageConfig)
  tree = {k: v for k, v in to_dict(stage).items() if k not in own}
  return traverse_util.flatten_dict(tree, sep='.')


def config_of(c: Config | ConfigDict, name: str) -> ConfigDict:
  """Returns the config the stage is played with, without stages of its own."""
  new = ConfigDict(to_dict(c))
  stage, given = new.stage[name], changes(c.stage[name])
  with new.unlocked(), new.ignore_type():
    new.stages, new.stage = OWN, ConfigDict()
    if given.get('env.name', c.env.name) != c.env.name:
      _move(new, given['env.name'])
    _put(new, given)
    own = {'sft.steps': stage.steps, 'steps': 0}
    if stage.kind == 'rl':
      own = {'sft.steps': 0, 'steps': stage.steps}
    _put(new, own)
    _complete_services(new)
    _prune(new, given)
  base.check_names(new)
  return base.fill(new).lock()


def _put(c: ConfigDict, values: dict[str, Any]) -> None:
  """Sets values by path, creating missing sections."""
  for path, value in values.items():
    *sections, last = path.split('.')
    node = c
    for section in sections:
      if not isinstance(node.get(section), ConfigDict):
        node[section] = ConfigDict()
      node = node[section]
    node[last] = value


def _move(c: ConfigDict, name: str) -> None:
  """Sets another environment, with its settings, sizes and services."""
  envs.check_name(name)
  c.env = envs.settings(name)
  c.rollout.kind = 'jit' if envs.in_jit(name) else 'host'
  c.host, c.service = ConfigDict(), ConfigDict()
  for service in (*envs.needs(c), *envs.component_services(c)):
    base.service(c, service)
  envs.fit(c)


def _complete_services(c: ConfigDict) -> None:
  """Fills in the fields of services, and drops those without a source.

  A stage can so add a service by one field, and leave out an inherited one that
  its environment does not ask by emptying its source.
  """
  defaults = dataclasses.asdict(ServiceConfig())
  for name, given in list(c.service.items()):
    made = defaults | to_dict(given)
    c.service[name] = ConfigDict(made)
    asked = (*envs.needs(c), *envs.component_services(c))
    if made == defaults and name not in asked:
      del c.service[name]


def _prune(c: ConfigDict, given: dict[str, Any]) -> None:
  """Drops inherited settings of components that are not named."""
  spec = base.wiring(c)
  named = {(scope, piece) for scope, _, piece in registry.parts(spec)}
  for scope, pieces in list(c.hp.items()):
    for piece in list(pieces):
      at = f'hp.{scope}.{piece}.'
      mine = any(path.startswith(at) for path in given)
      if (scope, piece) not in named and not mine:
        del pieces[piece]
    if not pieces:
      del c.hp[scope]
  terms = (*spec.advantage, *spec.loss)
  for section in _BY_NAME:
    for term in list(c[section]):
      mine = any(f'{path}.'.startswith(f'{section}.{term}.') for path in given)
      if term not in terms and not mine:
        del c[section][term]
  for path in _scheduled(c.schedule):
    if f'schedule.{path}' not in given and not there(c, path):
      *sections, last = path.split('.')
      node = c.schedule
      for section in sections:
        node = node[section]
      del node[last]


def _scheduled(schedule: ConfigDict) -> list[str]:
  return list(traverse_util.flatten_dict(to_dict(schedule), sep='.'))


def there(c: Any, path: str) -> bool:
  """Returns whether a config has something at a path."""
  node = to_dict(c)
  for name in path.split('.'):
    if not isinstance(node, dict) or name not in node:
      return False
    node = node[name]
  return True


def world(c: Config | ConfigDict) -> str:
  """Returns text that is equal for configs with the same tasks."""
  return json.dumps([to_dict(c.env), c.data], sort_keys=True, default=str)


def sampled(c: Config | ConfigDict) -> str:
  """Returns text that is equal for configs whose samplers do the same."""
  whole = to_dict(c)
  tree = {name: whole[name] for name in _SAMPLED}
  hp = {x: y for x, y in whole['hp'].items() if x in _SAMPLED_HP}
  roles = {name: (r.kind, r.heads) for name, r in c.role.items()}
  del tree['rollout']['temperature']  # which attempts have
  text = [tree, hp, roles]
  return json.dumps(text, sort_keys=True, default=str)


def add_fields(c: ConfigDict, paths: Iterable[str]) -> None:
  """Adds fields that flags set to stages, with their current values.

  Args:
    paths: 'stage.<name>.<path>'; unknown fields are ignored
  """
  for whole in paths:
    section, _, rest = whole.partition('.')
    name, _, path = rest.partition('.')
    if section != 'stage' or name not in c.get('stage', {}) or not path:
      continue
    if there(c.stage[name], path):
      continue
    inside = config_of(c, name)
    if there(inside, path):
      node: Any = inside
      for part in path.split('.'):
        node = node[part]
      with c.unlocked():
        _put(c.stage[name], {path: node})
