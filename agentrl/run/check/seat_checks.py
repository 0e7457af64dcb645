"""Checks of the roles that play the seats of a game."""

from agentrl import registry
from agentrl.configs import envs
from agentrl.configs.config import Config
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
  if not r.seats:
    return
  _check_game(c)
  for name in r.seats:
    _check_player(c, name)
  _check_alone(c, spec)
  if len(set(r.seats)) > 1:
    _check_readers(c, spec)


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
