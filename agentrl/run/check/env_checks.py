"""Checks of environments: their terms, settings and length.

All of it is found before anything is built or compiled.
"""

import importlib.util

from ml_collections import ConfigDict

from agentrl import registry
from agentrl.configs import base
from agentrl.env import base as base_env
from agentrl.rollout.registered import TERMS


def terms(c: ConfigDict, names: tuple[str, ...]) -> None:
  """Checks that the environment gives the terms that the config needs."""
  w = base.wiring(c)
  gives = [g for g in w.gives if not g.startswith('term:')]
  gives += [f'term:{name}' for name in names]
  registry.check(w._replace(gives=tuple(gives)))


def family(c: ConfigDict) -> None:
  """Checks the settings of the family of c.env, and where it runs."""
  own = base_env.of(c.env.to_dict())
  if isinstance(own, base_env.ChecksSettings):
    own.check()
  names = *TERMS, *own.columns
  if twice := [x for x in own.columns if names.count(x) > 1]:
    raise ValueError(
      f'c.env gives the term {twice[0]!r} twice, or one of every record'
      f' ({", ".join(TERMS)}); name it otherwise'
    )
  worker = c.host.worker
  if isinstance(own, base_env.OwnProcess) and worker not in ('', 'process'):
    raise ValueError(
      f'host.worker={worker!r}, and environments of {c.env.name!r} need'
      " a process each; set it to 'process', or leave it empty"
    )


def programs(c: ConfigDict, family: base_env.EnvFamily) -> None:
  """Checks what a family that is played by programs needs."""
  if not isinstance(base_env.of(c.env.to_dict()), base_env.PlaysPrograms):
    return
  name = f'env.name={c.env.name!r} is played by programs'
  if not isinstance(family, base_env.PlaysPrograms):
    raise ValueError(
      f'service.judge scores messages of environments, and {name}; name a judge'
      ' in c.judge that asks it, or set env.grader'
    )
  for path, value, allowed in (
    ('rollout.history', c.rollout.history, ('full',)),
    ('prefix', c.prefix, (base.FIELDS['prefix'].default,)),
    ('rollout.system', c.rollout.system, ('',)),
    ('rollout.action_prefix', c.rollout.action_prefix, ('',)),
    ('host.worker', c.host.worker, ('', 'thread')),
  ):
    if value not in allowed:
      raise ValueError(
        f'{path}={value!r}, and {name}, which write their conversations'
        f' themselves; set it to {allowed[0]!r}'
      )
  for package in ('starlette', 'uvicorn'):
    if importlib.util.find_spec(package) is None:
      raise base_env.missing(package, 'host')


def oracle(c: ConfigDict) -> None:
  """Checks that a planner knows what its moves lead to."""
  at = f'env.oracle={c.env.oracle!r} is the next move of a planner, which'
  if c.env.name == 'sokoban' and (c.env.boxes != 1 or c.env.levels):
    raise ValueError(
      f'{at} generated levels with one box have, and env.boxes={c.env.boxes}'
      f" with env.levels={c.env.levels!r}; set boxes to 1 and levels to ''"
    )
  if c.env.name == 'frozen_lake' and c.env.slip:
    raise ValueError(f'{at} slippery ice does not obey; set env.slip to False')


def length(c: ConfigDict) -> None:
  """Checks that an environment of fixed length can end."""
  if c.rollout.max_turns < c.env.length:
    raise ValueError(
      f'env.length={c.env.length} turns never end within'
      f' rollout.max_turns={c.rollout.max_turns}; raise rollout.max_turns or'
      ' lower env.length'
    )
