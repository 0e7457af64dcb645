"""Validation of configs: one sentence for what does not fit.

All of it is found before anything is built or compiled.
"""

import dataclasses
import math
import re
from typing import Any

import jax

from agentrl import mesh, registry
from agentrl.configs import base, envs, stages
from agentrl.configs.config import Config
from agentrl.domain import COUNT0, OneOf, Real
from agentrl.log import wandb_tracker
from agentrl.rollout import registered
from agentrl.run.check import (
  compaction_checks,
  env_checks,
  fields,
  late_checks,
  model_checks,
  reading_checks,
  recall_checks,
  reward_checks,
  role_checks,
  seat_checks,
  stage_checks,
  staleness_checks,
)
from agentrl.schedule import SHAPES

# Slots whose components run while trajectories are collected.
_COLLECTED = (
  'task',
  'recall',
  'prefix',
  'rollout',
  'collect',
  'judge',
  'reward',
)


def config(given: Any, devices: int | None = None) -> Config:
  """Checks a ConfigDict before anything expensive; returns its Config.

  Args:
    devices: that the run would have; None: those at hand
  Raises:
    ValueError: something does not fit, in one sentence.
  """
  c = fields.read(given)
  r = c.rollout
  if r.batch % r.group_size:
    raise ValueError(
      f'rollout.batch={r.batch} is not a multiple of'
      f' rollout.group_size={r.group_size};'
      f' set rollout.batch to {-(-r.batch // r.group_size) * r.group_size}'
    )
  model_checks.memory(c)
  spec = base.wiring(c)
  on_host = registered.kind_of(spec).on_host
  _check_rollout(c, on_host)
  shape = mesh.shape_of(c.mesh)
  open_ended = -1 in shape.values()
  here = len(jax.devices()) if open_ended else math.prod(shape.values())
  sizes = mesh.sizes(shape, here)
  shards = mesh.num_shards('batch', sizes)
  for name, size in (
    ('rollout.batch', r.batch),
    ('rollout.slots', r.slots),
    ('micro_batch', c.micro_batch),
    ('sft.batch', c.sft.batch),
  ):
    if size % shards:
      axes = (
        f'mesh.{x}={sizes[x]}' for x in mesh.RULES['batch'] if sizes[x] > 1
      )
      raise ValueError(
        f'{name}={size} is not divisible by {shards}, over which'
        f' {" and ".join(axes)} split rows; set it to'
        f' {-(-size // shards) * shards}'
      )
  if 'policy' not in c.role or c.role['policy'].kind != 'train':
    raise ValueError('c.role.policy must exist and have kind train')
  for name, role in c.role.items():
    role_checks.loaded(c, name, role)
  if r.null_observation and r.history == 'turn' and r.window > 1:
    raise ValueError(
      f'rollout.null_observation={r.null_observation!r} replaces an'
      f' observation, but with rollout.window={r.window} a context holds'
      " several; set rollout.window to 1, or rollout.history to 'full'"
    )
  spare = [x for x in c.service if x not in envs.component_services(c)]
  if spare and not on_host:
    raise ValueError(
      f'service.{spare[0]} answers host environments, and'
      f' env.name={c.env.name!r} is one inside jit; leave it out, or name a'
      ' judge in c.judge that asks it'
    )
  stages.check(c)
  registry.check(spec, c)
  reward_checks.returned(spec)
  seat_checks.check(c, spec)
  env_checks.goals(c, spec)
  staleness_checks.check(c, spec, devices)
  for name, chain in c.stream.items():  # also those that advantage lacks
    for link in chain:
      registry.get('link', link, f'c.stream.{name}')
  role_checks.compared(c, spec)
  _check_select(c, spec)
  alone = model_checks.frame, model_checks.adapter, _check_rows, _check_schedule
  for fits_alone in (*alone, reading_checks.hints, stage_checks.mix):
    fits_alone(c)
  compaction_checks.check(c, spec)
  recall_checks.check(c, spec)
  late_checks.check(c, spec)
  reading_checks.teachers(spec)
  reading_checks.sampled(c, spec)
  stage_checks.pairs(stages.plans(c))
  if c.stage:
    _check_stages(c, devices)
  return c


def _check_stages(c: Config, devices: int | None) -> None:
  """Checks the config of every stage, which has no stages of its own."""
  plans = stages.plans(c)
  for plan in plans:
    if plan.config is not c:
      try:
        config(plan.config, devices)
      except ValueError as error:
        raise ValueError(f'stage {plan.name}: {error}') from error
  stage_checks.found(plans)
  stage_checks.demonstrated(plans)
  stage_checks.prefixed(plans)
  staleness_checks.stages(plans)


def _check_select(c: Config, spec: registry.MethodSpec) -> None:
  """Checks that the spans that loss terms look at are marked."""
  marked = {x for x in registry.provided(spec) if x.startswith('span:')}
  for term, seen in c.select.items():
    span = seen.get('span')
    if span and f'span:{span}' not in marked:
      names = sorted(x.removeprefix('span:') for x in marked)
      raise ValueError(
        f'select.{term}.span must be one of {names}, the spans that rollout'
        f' {c.rollout.kind!r} of env.name={c.env.name!r} marks, got {span!r}'
      )


def _check_rollout(c: Config, on_host: bool) -> None:
  """Checks that the rollout can play the environment as the method needs."""
  envs.check_name(c.env.name)
  if envs.in_jit(c.env.name):
    if on_host:
      raise ValueError(
        f'rollout.kind must be one of {_inside_jit()} for'
        f' env.name={c.env.name!r}, which runs inside jit, got'
        f' {c.rollout.kind!r}'
      )
    return
  kind = registered.kind_of(base.wiring(c))
  if kind.purify is not None and c.rollout.history == 'turn':
    raise ValueError(
      f'rollout.kind={c.rollout.kind!r} takes failed calls out of the history'
      " that a row holds, and rows of rollout.history='turn' quote it; set"
      " rollout.history to 'full'"
    )
  if not on_host:
    raise ValueError(
      f'rollout.kind={c.rollout.kind!r} plays environments inside jit, and'
      f' env.name={c.env.name!r} is a host environment, whose rollouts do not'
      ' mark the parts of a message yet; set env.name to'
      f' {" or ".join(map(repr, envs.JITTED))}'
    )


def _inside_jit() -> tuple[str, ...]:
  """Returns the kinds of rollout that play environments inside jit."""
  kinds = registry.names('rollout')
  return tuple(x for x in kinds if not registered.on_host(x))


def log(c: Config) -> None:
  """Checks that the tracker of metrics is installed."""
  if c.log.wandb:
    wandb_tracker.installed()


def _check_schedule(c: Config) -> None:
  """Checks that scheduled paths name numbers, between two in their domain."""
  every = fields.flat(c)
  for path, values in fields.flat(c.schedule).items():
    kind, node = path.split('.')[0], every.get(path)
    schedulable = kind in ('coef', 'hp') or re.fullmatch(
      r'role\.\w+\.lr|mix\.\w+\.weight', path
    )
    of = None
    if schedulable and isinstance(node, int | float):
      of = fields.domain_of(c, path)
    if of is None:
      raise ValueError(
        f'c.schedule.{path} names no number of this config; use coef.<stream'
        ' or term>, hp.<scope>.<piece>.<name>, role.<role>.lr or'
        ' mix.<source>.weight'
      )
    if kind == 'hp' and path.split('.')[1] in c.mix:
      raise ValueError(
        f'c.schedule.{path} is read once, when its source is; leave it out'
      )
    if kind == 'hp' and path.split('.')[1] in _COLLECTED:
      raise ValueError(
        f'c.schedule.{path} is read while trajectories are collected, and only'
        ' what the update reads can follow a schedule; weigh it as a stream by'
        ' coef.<stream> instead'
      )
    if not isinstance(values, tuple | list) or len(values) != 4:
      raise ValueError(
        f'c.schedule.{path}={values!r} must be (shape, start, end, steps)'
      )
    if isinstance(of, Real) and of.compiled:
      raise ValueError(
        f'c.schedule.{path}={values!r} changes a number that the update is'
        ' compiled for; leave it out'
      )
    if not isinstance(of, Real):
      raise ValueError(
        f'c.schedule.{path} must be of a field that may be any number in'
        f' between, and this is {of.explain()}; got {values!r}, leave it out'
      )
    between = dataclasses.replace(of, infinite=False, most='')
    for name, x, value in zip(
      ('shape', 'start', 'end', 'steps'),
      (OneOf(*SHAPES), between, between, COUNT0),
      values,
      strict=True,
    ):
      x.check(f'c.schedule.{path}: {name}', value)


def _check_rows(c: Config) -> None:
  """Checks that the rows of a batch divide into micro-batches."""
  each = c.rollout.max_turns if c.rollout.history == 'turn' else 1
  counts = {'rollout': c.rollout.batch, 'sft': c.sft.batch}
  spec = base.wiring(c)
  for name in _replaying(c):
    piece = registry.get('memory', name)
    n = registry.settings(piece, spec.values('memory', name))['n']
    counts[f'rollout and its {name}'] = c.rollout.batch + n
  for what, batch in counts.items():
    n = batch * each
    if n % c.micro_batch:
      divisor = next(
        d for d in range(min(c.micro_batch, n), 0, -1) if n % d == 0
      )
      raise ValueError(
        f'the {what} makes {n} rows, which micro_batch={c.micro_batch} does not'
        f' divide; set micro_batch to a divisor, such as {divisor}'
      )


def _replaying(c: Config) -> list[str]:
  """Returns memories that add to the batch; ValueError for more than one."""
  names = [
    name
    for name in c.memory
    if 'memory:replayed' in registry.get('memory', name, 'c.memory').gives
  ]
  if len(names) > 1:
    raise ValueError(
      f'c.memory={tuple(c.memory)} has {len(names)} memories that add old'
      f' trajectories to the batch, {names}; loss terms tell them apart by'
      f' source alone, so keep one, say {names[0]!r}'
    )
  return names
