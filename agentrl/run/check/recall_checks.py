"""Checks of what attempts read of a memory, before anything is built."""

from collections.abc import Sequence

from agentrl import registry
from agentrl.configs import base as base_config
from agentrl.configs import envs
from agentrl.configs.config import Config
from agentrl.env import base as env_base
from agentrl.env.asking import AsksMemory
from agentrl.recall import base, retrieval
from agentrl.rollout import registered

NONE = repr(retrieval.none.__name__)


def check(c: Config, spec: registry.MethodSpec) -> None:
  """Checks who writes and reads, and what attempts that read go on with."""
  recall = base.of(spec)
  _check_writer(c, spec)
  if recall is None:
    return
  if recall.every:
    _check_turns(c, recall)
    every = base.writer(spec).get('every', 1)
    if every > 1:
      raise ValueError(
        f'hp.memory.{base.told(spec)}.every must be 1 with recall={c.recall!r},'
        f' whose turns read the bank that is written, got {every}'
      )
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


def _check_turns(c: Config, recall: base.Recall) -> None:
  """Checks that turns can read by what is observed or asked."""
  if not registered.on_host(c.rollout.kind):
    raise ValueError(
      f'recall must be read before attempts begin for env.name={c.env.name!r},'
      f' inside jit, got {c.recall!r}; take an environment on hosts, or another'
      ' recall'
    )
  if c.rollout.history not in ('turn', 'full'):
    raise ValueError(
      f"rollout.history must be 'turn' or 'full' with recall={c.recall!r}, got"
      f' {c.rollout.history!r}'
    )
  if recall.every != base.ASKED:
    return
  family = envs.of(c)
  if isinstance(family, AsksMemory) and family.asks:
    return
  setting = "set one of them, or allow it in the environment's settings"
  raise ValueError(
    f"hp.recall.{c.recall}.every must be '{base.TURN}' or '{base.EPISODE}' for"
    f' env.name={c.env.name!r}, whose messages ask no memory, got'
    f' {recall.every!r}; {setting}'
  )


def _check_writer(c: Config, spec: registry.MethodSpec) -> None:
  """Checks that a service that writes sees the attempts."""
  for name in spec.memory:
    own = registry.get('memory', name, 'c.memory')
    values = registry.settings(own, spec.values('memory', name))
    if not values.get('service'):
      continue
    if envs.in_jit(c.env.name):
      raise ValueError(
        f"hp.memory.{name}.service must be '' for env.name={c.env.name!r},"
        ' inside jit, where no service sees attempts, got'
        f' {values["service"]!r}; set another hp.memory.{name}.write'
      )


def together(configs: Sequence[Config]) -> None:
  """Raises ValueError where runs that go together read memories."""
  for c in configs:
    if base.of(base_config.wiring(c)):
      raise ValueError(
        f'recall must be {NONE} for runs that go together, which evaluate one'
        f' set of attempts, got {c.recall!r}; start each run by itself'
      )
