"""Checks of what attempts read of a memory, before anything is built."""

from collections.abc import Sequence

from agentrl import registry
from agentrl.configs import base as base_config
from agentrl.configs import envs
from agentrl.configs.config import Config
from agentrl.env import base as env_base
from agentrl.recall import base, retrieval

NONE = repr(retrieval.none.__name__)


def check(c: Config, spec: registry.MethodSpec) -> None:
  """Checks who plays an attempt that reads, and what it goes on with."""
  recall = base.of(spec)
  if recall is None:
    return
  if not envs.in_jit(c.env.name) and isinstance(
    envs.family(c), env_base.PlaysPrograms
  ):
    raise ValueError(
      f'recall must be {NONE} for env.name={c.env.name!r}, whose programs write'
      f' their own prompts, got {c.recall!r}; set recall to {NONE}'
    )
  gives = registry.get('collect', spec.collect, 'c.collect').gives
  if 'column:unfinished' in gives:
    raise ValueError(
      f'recall must be {NONE} with collect={c.collect!r}, whose attempts go on'
      f' when the memory is another, got {c.recall!r}; set recall to {NONE}'
    )


def together(configs: Sequence[Config]) -> None:
  """Raises ValueError where runs that go together read memories."""
  for c in configs:
    if base.of(base_config.wiring(c)):
      raise ValueError(
        f'recall must be {NONE} for runs that go together, which evaluate one'
        f' set of attempts, got {c.recall!r}; start each run by itself'
      )
