"""Checks of the roles that play the seats of a game."""

from agentrl import registry
from agentrl.configs import envs
from agentrl.configs.config import Config
from agentrl.env import seats as seats_lib
from agentrl.env.jit import base as jit_base
from agentrl.learner.algorithm import POLICY


def check(c: Config, spec: registry.MethodSpec) -> None:
  """Checks that every seat has a player, and every player learns what it can.

  Raises:
    ValueError: one sentence on what does not fit.
  """
  r = c.rollout
  if len(set(r.seats)) < 2:
    for path, value in (
      ('rollout.swap_seats', r.swap_seats),
      ('rollout.learn_in_turn', r.learn_in_turn),
    ):
      if value:
        raise ValueError(
          f'{path} must be 0 unless rollout.seats names two roles or more, got'
          f' {value} with rollout.seats={r.seats}'
        )
  _check_compared(c, spec)
  if not r.seats:
    return
  _check_game(c)
  for name in r.seats:
    _check_player(c, name)
  _check_alone(c, spec)
  if len(set(r.seats)) > 1:
    _check_readers(c, spec)


def _check_compared(c: Config, spec: registry.MethodSpec) -> None:
  """Checks that links which compare a seat within its group find two of it."""
  n = c.rollout.group_size
  for scope, slot, name in registry.parts(spec):
    if slot != 'link':
      continue
    values = dict(registry.settings_of(spec, slot, name))[scope]
    if not {'group', 'agent'} <= {*values.get('by', ())}:
      continue
    seats = _count_seats(c)
    if n < 2 * seats:
      raise ValueError(
        f'rollout.group_size must be >= {2 * seats}, two matches of the {seats}'
        f' seats of env.name={c.env.name!r}, since link {name!r} of {scope!r}'
        f' compares each seat with itself in the group, got {n}'
      )


def _count_seats(c: Config) -> int:
  """Counts the seats that the rows of a match are of; 0: there are none."""
  if c.env.name in envs.JITTED:
    return 0
  family = envs.of(c)
  if not envs.in_jit(c.env.name):
    return len(seats_lib.names(family))
  env = family.env()  # type: ignore[attr-defined]  # a family inside jit
  return env.seats if isinstance(env, jit_base.SeatedEnv) else 0


def _check_game(c: Config) -> None:
  """Checks that seats and the roles that play them are equal in number."""
  seats, name = c.rollout.seats, c.env.name
  if not envs.in_jit(name) or name in envs.JITTED:
    raise ValueError(
      'rollout.seats must be () unless the environment is a game inside jit,'
      f' got {seats} with env.name={name!r}; set env.name to a game such as'
      " 'solver_verifier'"
    )
  env = envs.of(c).env()  # type: ignore[call-arg]  # a family inside jit
  if not isinstance(env, jit_base.SeatedEnv):
    raise ValueError(
      f'rollout.seats must be () where env.name={name!r} has one seat for the'
      f" policy, got {seats}; set env.opponent to ''"
    )
  if len(seats) != env.seats:
    raise ValueError(
      f'rollout.seats must name a role for each of the {env.seats} seats of'
      f' env.name={name!r}, got {seats}'
    )


def _check_player(c: Config, name: str) -> None:
  """Checks that a role can play."""
  if name not in c.role:
    raise ValueError(
      f'rollout.seats must name roles of c.role={tuple(c.role)}, got {name!r};'
      f' add it by base.role(c, {name!r})'
    )
  role = c.role[name]
  if role.heads:
    raise ValueError(
      'rollout.seats must name language models, which have one vocabulary, got'
      f' {name!r} with role.{name}.heads={role.heads}'
    )
  if role.kind == 'ema':
    raise ValueError(
      f"rollout.seats must name roles of kind 'train' or 'frozen', got {name!r}"
      f' of kind {role.kind!r}'
    )


def _check_alone(c: Config, spec: registry.MethodSpec) -> None:
  """Checks that every role plays a seat, or is asked for something else."""
  if POLICY not in c.rollout.seats:
    raise ValueError(
      f'rollout.seats must name {POLICY!r}, from which the others start, got'
      f' {c.rollout.seats}'
    )
  asked = {x.role for x in c.service.values()} | set(c.rollout.seats)
  for scope, slot, name in registry.parts(spec):
    needs = registry.needs(spec, scope, slot, name)
    asked |= {x.partition(':')[2] for x in needs if x.startswith('role:')}
  for name in c.role:
    if name not in asked:
      raise ValueError(
        f'role.{name} must play a seat or be read by a component, got'
        f' rollout.seats={c.rollout.seats}; name it there, or leave it out'
      )


def _check_readers(c: Config, spec: registry.MethodSpec) -> None:
  """Checks that no component takes one player for all of them."""
  for scope, slot, name in registry.parts(spec):
    if slot == 'edit':
      continue
    if f'role:{POLICY}' in registry.needs(spec, scope, slot, name):
      raise ValueError(
        f'c.{slot} must not name {name!r} with rollout.seats='
        f'{c.rollout.seats}, since it reads all trajectories by the network of'
        f' {POLICY!r} alone, got {name!r}; leave it out'
      )
  if c.judge:
    raise ValueError(
      f'c.judge must be () with rollout.seats={c.rollout.seats}, got'
      f' {tuple(c.judge)}'
    )
