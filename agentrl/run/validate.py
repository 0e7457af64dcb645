"""What a config must satisfy: one sentence for what does not fit.

All of it is found before anything is built or compiled.
"""

import dataclasses
import math
import re
from collections.abc import Mapping

import jax
from ml_collections import ConfigDict

from agentrl import mesh, registry
from agentrl.configs import base, envs
from agentrl.domain import COUNT0, OneOf, Real
from agentrl.log import wandb_tracker
from agentrl.nn.transformer import Shape
from agentrl.run import fields
from agentrl.schedule import SHAPES
from agentrl.service.base import Function


def config(c: ConfigDict) -> None:
  """One sentence for what does not fit, before anything expensive."""
  fields.check(c)
  r = c.rollout
  if r.batch % r.group:
    raise ValueError(
      f'rollout.batch={r.batch} is not a multiple of rollout.group={r.group};'
      f' set rollout.batch to {-(-r.batch // r.group) * r.group}'
    )
  _check_rollout(c)
  sizes = _mesh(c)
  devices = mesh.pieces('batch', sizes)
  for name, size in (
    ('rollout.batch', r.batch),
    ('rollout.slots', r.slots),
    ('micro', c.micro),
    ('sft.batch', c.sft.batch),
  ):
    if size % devices:
      raise ValueError(
        f'{name}={size} is not divisible by {devices}, over which'
        f' {_told(sizes)} split rows; set it to {-(-size // devices) * devices}'
      )
  for name in ('policy',):
    if name not in c.role or c.role[name].kind != 'train':
      raise ValueError(f'c.role.{name} must exist and have kind train')
  if r.nulled and r.history == 'turn' and r.window > 1:
    raise ValueError(
      f'rollout.nulled={r.nulled!r} replaces an observation, but with'
      f' rollout.window={r.window} a context holds several; set'
      " rollout.window to 1, or rollout.history to 'full'"
    )
  if 'blend' in c.signal and c.model.attention != 'xla':
    raise ValueError(
      f'model.attention={c.model.attention!r} has no forward mode, which signal'
      " 'blend' needs; set model.attention to 'xla'"
    )
  if c.service and c.rollout_kind != 'host':
    raise ValueError(
      f'service.{next(iter(c.service))} answers host environments, and'
      f' env.name={c.env.name!r} is one inside jit; leave it out'
    )
  registry.check(base.wiring(c))
  _check_frame(c)
  _check_adapter(c)
  _check_rows(c)
  _check_schedule(c)


def _check_rollout(c: ConfigDict) -> None:
  """The kind of rollout can play the environment as the method wants it."""
  envs.known(c.env.name)
  if c.env.name in envs.JITTED:
    if c.rollout_kind == 'host':
      raise ValueError(
        f"env.name={c.env.name!r} runs inside jit, and rollout_kind='host' is"
        " for the others; set rollout_kind to 'jit'"
      )
    return
  jitted = f'set env.name to {" or ".join(map(repr, envs.JITTED))}'
  if c.rollout_kind != 'host':
    raise ValueError(
      f'rollout_kind={c.rollout_kind!r} plays environments inside jit, and'
      f' env.name={c.env.name!r} is a host environment, whose rollouts do not'
      f' mark the parts of a message yet; {jitted}'
    )
  if c.rollout.nulled:
    raise ValueError(
      f'rollout.nulled={c.rollout.nulled!r} asks for a second reading of each'
      ' message without its observation, which rollouts of host environments'
      f' such as env.name={c.env.name!r} do not make yet; {jitted}'
    )


def _mesh(c: ConfigDict) -> dict[str, int]:
  """Sizes of the mesh, on as many devices as it asks for."""
  shape = {name: c.mesh[name] for name in mesh.AXES}
  open_ended = -1 in shape.values()
  here = len(jax.devices()) if open_ended else math.prod(shape.values())
  return mesh.sizes(shape, here)


def _told(sizes: Mapping[str, int]) -> str:
  """The mesh axes that split rows."""
  names = [name for name in mesh.RULES['batch'] if sizes[name] > 1]
  return ' and '.join(f'mesh.{name}={sizes[name]}' for name in names)


def log(c: ConfigDict) -> None:
  """Who gets the numbers can be reached."""
  if c.log.wandb:
    wandb_tracker.installed()


def terms(c: ConfigDict, told: tuple[str, ...]) -> None:
  """The environment tells what the config expects of its kind."""
  w = base.wiring(c)
  registry.check(
    w._replace(gives=(
      *(g for g in w.gives if not g.startswith('term:')),
      *(f'term:{name}' for name in told),
    ))
  )  # fmt: skip


def services(c: ConfigDict, needs: tuple[str, ...], place: str) -> None:
  """Whoever is asked is there, and nobody else.

  Args:
    needs: names of the services that the environment asks.
    place: where environments live.
  """
  for name in needs:
    if name not in c.service:
      raise ValueError(
        f'env.name={c.env.name!r} asks the service {name!r}, and c.service has'
        f' {tuple(c.service)}; add it by base.service(c, {name!r})'
      )
  if needs and place != 'thread':
    raise ValueError(
      f'environments live in place {place!r} and ask services {needs}, which'
      " are in this process; set host.place to 'thread' if they can live there"
    )
  for name in c.service:
    if name not in needs:
      raise ValueError(
        f'service.{name} is asked by nobody; env.name={c.env.name!r} asks'
        f' {needs}, so leave it out'
      )
    _check_service(c, name)


SOURCES = ('function', 'role', 'run')


def _check_service(c: ConfigDict, name: str) -> None:
  """One source, which is there, and room for a question."""
  service, at = c.service[name], f'service.{name}'
  given = {source: service[source] for source in SOURCES if service[source]}
  if len(given) != 1:
    raise ValueError(
      f'{at} has {len(given)} sources, {given}; set exactly one of'
      f' {", ".join(f"{at}.{source}" for source in SOURCES)}'
    )
  if service.context <= service.message:
    raise ValueError(
      f'{at}.context={service.context} holds no question beside an answer of'
      f' {at}.message={service.message} tokens; set it to more'
    )
  if service.function:
    _check_function(service.function, at)
    return
  if service.role:
    _check_speaker(c, service.role, at)


def _check_function(path: str, at: str) -> None:
  try:
    Function(path)
  except ValueError as error:
    raise ValueError(f'{at}.function={error}') from error


def _check_speaker(c: ConfigDict, role: str, at: str) -> None:
  """The role writes text."""
  speakers = [r for r in c.role if r == 'policy' or not c.role[r].heads]
  if role not in speakers:
    raise ValueError(
      f'{at}.role={role!r} is no language model of this run; choose from'
      f' {tuple(speakers)}'
    )


def length(c: ConfigDict) -> None:
  """An environment of fixed length comes to its end."""
  if c.rollout.turns < c.env.length:
    raise ValueError(
      f'env.length={c.env.length} turns never end within'
      f' rollout.turns={c.rollout.turns}; raise rollout.turns or lower'
      ' env.length'
    )


def _check_frame(c: ConfigDict) -> None:
  """What is said of the frame goes together."""
  r = c.rollout
  if r.frame == 'chat' and not c.model.path:
    raise ValueError(
      "rollout.frame='chat' is the template of a checkpoint, and the model is"
      " its own; set model.path, or rollout.frame to 'auto'"
    )
  if r.system and (r.frame == 'bare' or not c.model.path):
    raise ValueError(
      f'rollout.system={r.system!r} is a message in the chat template of a'
      " checkpoint; set model.path and rollout.frame to 'auto', or leave it"
      ' empty'
    )


def _check_adapter(c: ConfigDict) -> None:
  """The adapter that a run begins with has a base."""
  path = c.lora.path
  if path and not c.model.path:
    raise ValueError(
      f'lora.path={path!r} is an adapter of a checkpoint; set model.path to'
      ' that checkpoint, or leave lora.path empty'
    )
  if path and c.init:
    raise ValueError(
      f'lora.path={path!r} is an adapter of model.path, and init={c.init!r} has'
      ' a policy of its own; leave one of them empty'
    )
  if path and not c.lora.rank:
    raise ValueError(
      f'lora.path={path!r} is an adapter and lora.rank=0 is none; set'
      ' lora.rank, lora.alpha and lora.pattern to those of its'
      ' adapter_config.json'
    )


def framed(c: ConfigDict) -> None:
  """What the frame of a chat does not go together with."""
  if c.rollout.nulled and c.rollout.history == 'full':
    raise ValueError(
      f'rollout.nulled={c.rollout.nulled!r} replaces what a turn adds to a full'
      " history, frame included; set rollout.history to 'turn', or"
      " rollout.frame to 'bare'"
    )


def _check_schedule(c: ConfigDict) -> None:
  """Every scheduled path names a number, between two that it may have."""
  for path, values in fields.flat(c.schedule).items():
    kind, node = path.split('.')[0], c
    for part in path.split('.'):
      inside = isinstance(node, ConfigDict) and part in node
      node = node[part] if inside else None
    known = kind in ('coef', 'hp') or re.fullmatch(r'role\.\w+\.lr', path)
    of = None
    if known and isinstance(node, int | float):
      of = fields.domain_of(c, path)
    if of is None:
      raise ValueError(
        f'c.schedule.{path} names no number of this config; use coef.<stream'
        ' or term>, hp.<scope>.<piece>.<name> or role.<role>.lr'
      )
    if not isinstance(values, tuple | list) or len(values) != 4:
      raise ValueError(
        f'c.schedule.{path}={values!r} must be (shape, start, end, steps)'
      )
    if not isinstance(of, Real):
      raise ValueError(
        f'c.schedule.{path}={values!r} changes what is {of.explain()}, and only'
        ' what may be any number in between can follow a schedule; leave it out'
      )
    between = dataclasses.replace(of, infinite=False, most='')
    for name, x, value in zip(
      ('shape', 'start', 'end', 'steps'),
      (OneOf(*SHAPES), between, between, COUNT0),
      values,
      strict=True,
    ):
      x.check(f'c.schedule.{path}: {name}', value)


def positions(shape: Shape, needed: int) -> None:
  """Learned positions reach to the end of a row."""
  if 0 < shape.positions < needed:
    raise ValueError(
      f'model.positions={shape.positions} and a row has {needed} tokens;'
      ' raise it, or set it to 0 for rotary positions alone'
    )


def room(c: ConfigDict, needed: int) -> None:
  """A full history has room for its first turn."""
  r = c.rollout
  if r.history == 'full' and 0 < r.context < needed:
    raise ValueError(
      f'rollout.context={r.context} tokens hold no first turn, which takes'
      f' up to {needed}; set it to more, or to 0 for whatever'
      f' rollout.turns={r.turns} need'
    )


def _check_rows(c: ConfigDict) -> None:
  """The rows of a rollout, and of the warm start, divide into micros."""
  each = c.rollout.turns if c.rollout.history == 'turn' else 1
  counts = {'rollout': c.rollout.batch, 'sft': c.sft.batch}
  if 'replay' in c.memory:
    counts['rollout and its replay'] = c.rollout.batch + c.hp.memory.replay.n
  for what, batch in counts.items():
    n = batch * each
    if n % c.micro:
      raise ValueError(
        f'the {what} makes {n} rows, which micro={c.micro} does not divide;'
        f' set micro to a divisor, such as {_divisor(n, c.micro)}'
      )


def _divisor(n: int, most: int) -> int:
  low = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
  return max(d for d in (*low, *(n // d for d in low)) if d <= most)
