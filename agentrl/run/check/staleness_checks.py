"""Checks of batches that are sampled by earlier policy versions."""

import math
from collections.abc import Sequence

import jax

from agentrl import mesh, registry
from agentrl.configs import base
from agentrl.configs.config import Config, to_dict
from agentrl.configs.stages import StagePlan
from agentrl.env import base as base_env
from agentrl.rollout import registered, stale
from agentrl.run.check import fields
from agentrl.runtime import objects, storage


def depth(c: Config) -> int:
  """Returns how many batches are collected at a time beside the updates."""
  s = c.staleness
  if s.jobs:
    return min(s.depth, s.bound + 1) if s.depth > 0 else s.bound + 1
  if s.depth >= 0:
    return min(s.depth, s.bound + 1) if s.bound else 0
  pays = s.devices or registered.kind_of(base.wiring(c)).on_host
  return int(s.bound > 0 and bool(pays) and not _kept_apart(c))


def set_aside(c: Config) -> int:
  """Returns how many devices of the run only collect; jobs have their own."""
  return 0 if c.staleness.jobs else c.staleness.devices


def check(
  c: Config, spec: registry.MethodSpec, devices: int | None = None
) -> None:
  """Checks that a method can learn from batches of its age.

  Args:
    devices: that the run would have; None: those at hand
  Raises:
    ValueError: it cannot, in one sentence.
  """
  s = c.staleness
  if stale.has_ages(spec, s.bound):
    _check_trust(c, spec)
  _check_resumed(c, spec)
  if s.jobs:
    if why := _kept_home(c):
      raise ValueError(
        f'staleness.jobs collects in other processes, and {why}; set'
        ' staleness.jobs to False'
      )
    _check_reached(c)
    _check_rows(c)
  elif s.bound:
    _check_beside(c, spec, len(jax.devices()) if devices is None else devices)
  elif s.order == 'latest' or s.depth > 0 or s.devices or s.swap != 'batch':
    raise ValueError(
      'staleness.bound must be >= 1 for batches that are collected beside the'
      f' updates, got 0 with order={s.order!r}, swap={s.swap!r},'
      f' depth={s.depth} and devices={s.devices}'
    )


def _check_beside(c: Config, spec: registry.MethodSpec, there: int) -> None:
  """Checks collection in threads, on a machine of `there` devices."""
  s = c.staleness
  if s.depth > 0 and (why := _kept_apart(c)):
    raise ValueError(
      f'staleness.depth={s.depth} collects in threads, and {why}; set'
      ' staleness.depth to 0, which gives the same numbers'
    )
  _check_devices(c, there)
  _check_swap(c, spec)
  if s.order == 'latest' and not depth(c):
    raise ValueError(
      "staleness.order='latest' is for batches that are collected beside the"
      ' updates; set staleness.depth to 1 or more'
    )


def _check_trust(c: Config, spec: registry.MethodSpec) -> None:
  """Checks that something bounds steps on tokens of an older policy."""
  s = c.staleness
  source = f'staleness.bound={s.bound}' if s.bound else f'c.task={spec.task!r}'
  for name in spec.loss:
    if registry.get('loss', name).unbounded:
      raise ValueError(
        f'loss {name!r} must not be used with {source}, since'
        ' nothing bounds its steps on tokens of an older policy; use ppo,'
        ' cispo, gspo or another loss with a trust region'
      )
  if not s.anchor:
    raise ValueError(
      f'{source} needs staleness.anchor, the policy that the'
      " loss's ratio is to: 'behaviour', or 'update' with a link such as"
      ' truncated_is in c.post'
    )
  if s.anchor == 'behaviour' and 'age_factor' in registry.provided(spec):
    raise ValueError(
      "staleness.anchor='behaviour' corrects for the age of tokens in the ratio"
      ' of the loss, and a link such as truncated_is would do it again; leave'
      " the link out, or set staleness.anchor to 'update'"
    )
  if s.anchor == 'update' and 'correction' not in registry.provided(spec):
    raise ValueError(
      "staleness.anchor='update' needs a link that corrects for the age of"
      " tokens, since the loss's ratio does not see it; add truncated_is,"
      ' masked_is or geometric_mask to c.post'
    )


def _check_resumed(c: Config, spec: registry.MethodSpec) -> None:
  """Checks that environments can repeat the turns that an attempt has."""
  on_host = registered.kind_of(spec).on_host
  if not on_host or 'older_tokens' not in registry.provided(spec):
    return
  if isinstance(base_env.of(to_dict(c.env)), base_env.PlaysPrograms):
    raise ValueError(
      f'c.task={spec.task!r} goes on behind messages that are said again, and'
      f' env.name={c.env.name!r} is played by programs, which write their own;'
      f' set c.task to {Config.task!r}'
    )


def folder(c: Config, workdir: str) -> None:
  """Raises ValueError for a folder that jobs cannot share."""
  if c.staleness.jobs and workdir.startswith(storage.SCHEME):
    raise ValueError(
      'staleness.jobs needs a --workdir that all machines mount, got'
      f' {workdir!r}'
    )


def stages(plans: Sequence[StagePlan]) -> None:
  """Raises ValueError where stages of a run differ in their staleness."""
  first = plans[0].config.staleness
  for plan in plans:
    own = plan.config.staleness
    if (own.bound, own.order) != (first.bound, first.order):
      raise ValueError(
        f"stage {plan.name}: staleness must equal stage {plans[0].name}'s,"
        f' bound={first.bound} and order={first.order!r}, got'
        f' bound={own.bound} and order={own.order!r}'
      )


def together(configs: Sequence[Config]) -> None:
  """Raises ValueError where runs that go together collect beside updates."""
  for c in configs:
    if c.staleness.jobs:
      raise ValueError(
        'staleness.jobs must be False for runs that go together, which collect'
        ' before their updates, got True; set it, or start each run by itself'
      )
    if n := depth(c):
      raise ValueError(
        f'staleness.depth={n} collects in threads, and runs that go together'
        ' collect before their updates; set staleness.depth to 0'
      )


def _check_swap(c: Config, spec: registry.MethodSpec) -> None:
  """Checks that policies may change within a batch."""
  s = c.staleness
  if s.swap == 'batch':
    return
  if s.order != 'latest':
    raise ValueError(
      f"staleness.swap must be 'batch' with staleness.order={s.order!r}, which"
      f' names the version of each batch, got {s.swap!r}; set order to'
      " 'latest'"
    )
  if not registered.kind_of(spec).on_host:
    raise ValueError(
      "staleness.swap must be 'batch' for environments inside jit, which play a"
      f' batch in one program, got {s.swap!r}; set it, or take a host'
      ' environment'
    )


def _check_devices(c: Config, there: int) -> None:
  """Checks the devices that collect batches, of those that are there."""
  s, shape = c.staleness, mesh.shape_of(c.mesh)
  if not s.devices:
    return
  own = math.prod(shape.values())
  if min(shape.values()) < 0 or own + s.devices > there:
    raise ValueError(
      f'staleness.devices={s.devices} leave {max(0, there - s.devices)} of'
      f' {there} for mesh, which must name their counts and not more, got'
      f' {shape}'
    )
  if s.devices > 1 and s.depth > 1:
    raise ValueError(
      f'staleness.depth={s.depth} would run programs of several threads on the'
      f' same {s.devices} devices; set staleness.depth to 1'
    )
  if why := _kept_apart(c) if s.depth else 'staleness.depth=0 has none':
    raise ValueError(
      f'staleness.devices={s.devices} collect in threads, and {why}; set'
      ' staleness.devices to 0'
    )
  _check_rows(c)


def _check_rows(c: Config) -> None:
  """Checks that rollouts can be split over the devices that collect."""
  devices = c.staleness.devices or 1
  for name, n in ('batch', c.rollout.batch), ('slots', c.rollout.slots):
    if n % devices:
      raise ValueError(
        f'rollout.{name}={n} must be a multiple of'
        f' staleness.devices={devices}, over which rows are split'
      )


def _check_reached(c: Config) -> None:
  """Checks that the address of the learner is of one machine."""
  address = c.staleness.address
  if address in ('', '0.0.0.0', '::'):
    raise ValueError(
      'staleness.address must be the address at which other machines reach this'
      f' one, got {address!r}, which on each machine means itself; set it to'
      ' 127.0.0.1 or the address of this machine in their network'
    )


def _kept_apart(c: Config) -> str:
  """Returns why a run cannot collect in threads; '' if it can."""
  if jax.process_count() > 1:
    return f'this run has {jax.process_count()} processes'
  shape = mesh.shape_of(c.mesh).values()
  if not c.staleness.devices and any(n != 1 for n in shape):
    return 'this run has a mesh'
  return _asked_here(c)


def _kept_home(c: Config) -> str:
  """Returns why other processes cannot collect a run's batches; '' if any."""
  for name, value in fields.flat(c).items():
    held = value if isinstance(value, list | tuple) else [value]
    if local := [x for x in held if objects.is_local(x)]:
      return f'config.{name}={local[0]!r} is an object of this one'
  if c.staleness.swap != 'batch':
    return f'staleness.swap={c.staleness.swap!r} needs the learner at hand'
  if c.staleness.depth == 0:
    return 'staleness.depth=0 leaves them no batch'
  return _asked_here(c)


def _asked_here(c: Config) -> str:
  if c.host.generator:
    return f'host.generator={c.host.generator!r} generates for one thread'
  if c.judge:
    return f'judge {c.judge[0]} keeps its answers for one thread'
  if c.service:
    return f'service {next(iter(c.service))} answers one thread'
  return ''
