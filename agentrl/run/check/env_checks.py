"""Checks of environments: their terms, settings and length.

All of it is found before anything is built or compiled.
"""

import importlib.util
from typing import Protocol, runtime_checkable

from agentrl import registry
from agentrl.configs import base, envs
from agentrl.configs.config import Config, to_dict
from agentrl.configs.env_sections import FrozenLakeConfig, SokobanConfig
from agentrl.env import base as base_env
from agentrl.env import proposals
from agentrl.env import seats as seats_lib
from agentrl.env.jit import base as jit_base
from agentrl.rollout.registered import TERMS
from agentrl.runtime import objects
from agentrl.text.chat_format import ChatFormat
from agentrl.text.message import Message


def terms(c: Config, names: tuple[str, ...]) -> None:
  """Checks that the environment gives the terms that the config needs."""
  w = base.wiring(c)
  gives = [g for g in w.gives if not g.startswith('term:')]
  gives += [f'term:{name}' for name in names]
  registry.check(w._replace(gives=tuple(gives)))


def family(c: Config) -> None:
  """Checks the settings of the family of c.env, and where it runs."""
  own = base_env.of(to_dict(c.env))
  if isinstance(own, base_env.ChecksSettings):
    own.check()
  names = *TERMS, *own.columns
  if twice := [x for x in own.columns if names.count(x) > 1]:
    raise ValueError(
      f'c.env gives the term {twice[0]!r} twice, or one of every record'
      f' ({", ".join(TERMS)}); name it otherwise'
    )
  worker = c.host.worker
  where = worker or own.worker
  here = [x for x in to_dict(c.env).values() if objects.is_local(x)]
  if here and where != 'thread':
    raise ValueError(
      f'host.worker={where!r} sends environments to other processes, which do'
      f' not find {here[0]!r}; define it in a module that can be imported, or'
      " set host.worker to 'thread'"
    )
  if worker not in base_env.CLUSTERS:
    for path in ('cluster', 'callback'):
      if value := getattr(c.host, path):
        raise ValueError(
          f'host.{path} must be empty unless host.worker is one of'
          f' {base_env.CLUSTERS}, got {value!r}'
        )
  if isinstance(own, base_env.OwnProcess) and worker == 'thread':
    raise ValueError(
      f'host.worker={worker!r}, and environments of {c.env.name!r} need'
      " a process each; set it to 'process', or leave it empty"
    )


def programs(c: Config, family: base_env.EnvFamily) -> None:
  """Checks what a family that is played by programs needs."""
  if not isinstance(base_env.of(to_dict(c.env)), base_env.PlaysPrograms):
    return
  name = f'env.name={c.env.name!r} is played by programs'
  if not isinstance(family, base_env.PlaysPrograms):
    raise ValueError(
      f'service.judge scores messages of environments, and {name}; name a judge'
      ' in c.judge that asks it, or set env.grader'
    )
  for path, value, allowed in (
    ('rollout.history', c.rollout.history, ('full',)),
    ('prefix', c.prefix, (Config.prefix,)),
    ('rollout.system', c.rollout.system, ('',)),
    ('rollout.action_prefix', c.rollout.action_prefix, ('',)),
    ('host.worker', c.host.worker, ('', 'thread')),
  ):
    if value not in allowed:
      raise ValueError(
        f'{path}={value!r}, and {name}, which write their conversations'
        f' themselves; set it to {allowed[0]!r}'
      )
  if 'given_turns' in registry.get('collect', c.collect, 'c.collect').gives:
    raise ValueError(
      f'collect must be one that gives no turns, got {c.collect!r}, and {name},'
      f' which repeat nothing; set it to {Config.collect!r}'
    )
  for package in ('starlette', 'uvicorn'):
    if importlib.util.find_spec(package) is None:
      raise base_env.missing(package, 'host')


@runtime_checkable
class BoundsObservations(Protocol):
  """Family that knows how long its observations are."""

  @property
  def longest(self) -> str:
    """An observation that is as long as any."""


def observations(c: Config, talk: ChatFormat) -> None:
  """Checks that the longest observation of c.env is not cut."""
  own = base_env.of(to_dict(c.env))
  if not isinstance(own, BoundsObservations):
    return
  needs = len(talk.start([Message('user', own.longest)]).ids)
  if c.host.max_observation_tokens < needs:
    raise ValueError(
      f'host.max_observation_tokens must be >= {needs}, the longest observation'
      f' of env.name={c.env.name!r} with its settings, got'
      f' {c.host.max_observation_tokens}'
    )


def goals(c: Config, spec: registry.MethodSpec) -> None:
  """Checks that links compare no attempts that have goals of their own."""
  if c.rollout.group_size < 2 or envs.in_jit(c.env.name):
    return
  own = envs.of(c)
  if not (isinstance(own, proposals.PosesGoals) and own.own_goals):
    return
  for scope, slot, name in registry.parts(spec):
    if slot != 'link':
      continue
    by = dict(registry.settings_of(spec, slot, name))[scope].get('by', ())
    if 'group' in by:
      raise ValueError(
        f'hp.{scope}.{name}.by={by} compares attempts of a group, each of which'
        f' has a goal of its own in env.name={c.env.name!r}; leave the group'
        ' out, set rollout.group_size to 1, or env.proposed to False'
      )


def oracle(c: Config) -> None:
  """Checks that a planner knows what its moves lead to."""
  env = c.env
  if isinstance(env, SokobanConfig) and (env.boxes != 1 or env.levels):
    raise ValueError(
      f'env.oracle={env.oracle!r} must be empty unless generated levels have'
      f' one box, got env.boxes={env.boxes} and env.levels={env.levels!r}'
    )
  if isinstance(env, FrozenLakeConfig) and env.slip:
    raise ValueError(
      f'env.oracle={env.oracle!r} must be empty on slippery ice, which no plan'
      ' survives; set env.slip to False'
    )


def length(c: Config, turns: int) -> None:
  """Checks that an environment of fixed length can end."""
  if c.rollout.max_turns < turns:
    raise ValueError(
      f'rollout.max_turns must be >= env.length={turns}, got'
      f' {c.rollout.max_turns}'
    )


def seats(c: Config, env: jit_base.JitEnv) -> None:
  """Checks that batches are whole matches, long enough to be played out."""
  r = c.rollout
  if not isinstance(env, jit_base.SeatedEnv | jit_base.OneSeat):
    return
  if r.max_turns < env.turns:
    raise ValueError(
      f'rollout.max_turns must be >= {env.turns}, the most turns of a seat in'
      f' env.name={c.env.name!r}, got {r.max_turns}'
    )
  if isinstance(env, jit_base.SeatedEnv):
    _whole_matches(c, env.seats, 'env.opponent, who plays the others')


def host_seats(c: Config, family: base_env.EnvFamily) -> None:
  """Checks what a host game of several seats needs of a config."""
  names = seats_lib.names(base_env.of(to_dict(c.env)))
  if not names:
    return
  if len(names) < 2 or len({*names}) < len(names) or '' in names:
    raise ValueError(
      f'seats of env.name={c.env.name!r} must be two or more different names,'
      f' got {names}'
    )
  for path, value, allowed in (
    ('service.judge', not seats_lib.names(family), False),
    ('reading', tuple(c.reading), ()),
    ('rollout.null_observation', c.rollout.null_observation, ''),
  ):
    if value != allowed:
      raise ValueError(
        f'{path} must be left out for env.name={c.env.name!r}, whose seats are'
        f' conversations of their own, got {value!r}'
      )
  _whole_matches(c, len(names), 'an env.name of one seat')
  if c.host.num_envs % len(names):
    raise ValueError(
      f'host.num_envs must be a multiple of {len(names)}, the seats of'
      f' env.name={c.env.name!r}, got {c.host.num_envs}'
    )


def _whole_matches(c: Config, seats: int, otherwise: str) -> None:
  """Checks that batches are whole matches, played from their beginning."""
  r = c.rollout
  for path, value in (
    ('rollout.group_size', r.group_size),
    ('rollout.slots', r.slots),
    ('sft.batch', c.sft.batch),
  ):
    if value % seats:
      raise ValueError(
        f'{path} must be a multiple of {seats}, the seats of'
        f' env.name={c.env.name!r}, got {value}; or set {otherwise}'
      )
  for path, name in (('prefix', c.prefix), ('collect', c.collect)):
    if 'given_turns' in registry.get(path, name, f'c.{path}').gives:
      raise ValueError(
        f'{path} must be one that gives no turns for'
        f' env.name={c.env.name!r}, whose matches are played from their'
        f' beginning, got {name!r}'
      )
