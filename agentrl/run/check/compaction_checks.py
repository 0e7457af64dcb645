"""Checks of conversations that begin anew behind a summary.

All of it is found before anything is built or compiled.
"""

from agentrl import registry
from agentrl.configs import stages
from agentrl.configs.config import Config, to_dict
from agentrl.env import base as base_env
from agentrl.prefix import lengths
from agentrl.rollout import registered
from agentrl.rollout.compaction import SUMMARY

_FULL = "set rollout.history to 'full'"


def check(c: Config, spec: registry.MethodSpec) -> None:
  """Checks what plays a compacted conversation, and what it is trained on."""
  if c.rollout.history != 'compact':
    return
  kind = registered.kind_of(spec)
  if not kind.on_host:
    raise ValueError(
      "rollout.history must be 'turn' or 'full' for"
      f' env.name={c.env.name!r}, which is played inside jit, got'
      f' {c.rollout.history!r}; set it, or take a host environment'
    )
  low, high = c.compaction.threshold
  if low > high:
    raise ValueError(
      'compaction.threshold must be the fewest and the most tokens, got'
      f' {tuple(c.compaction.threshold)}; swap them'
    )
  if c.compaction.tokens > c.rollout.max_message_tokens:
    raise ValueError(
      'compaction.tokens must be <= rollout.max_message_tokens='
      f'{c.rollout.max_message_tokens}, as a summary is a message, got'
      f' {c.compaction.tokens}; raise rollout.max_message_tokens'
    )
  alone = "with rollout.history='compact'"
  for path, value, allowed, why in (
    ('rollout.context', c.rollout.context, 0, 'compaction.threshold is it'),
    ('rollout.window', c.rollout.window, 1, 'segments have no window'),
    (
      'rollout.null_observation',
      c.rollout.null_observation,
      '',
      'its reading has no segments',
    ),
    ('reading', tuple(c.reading), (), 'a hint would stand in one segment'),
    ('sft.store', c.sft.store, '', 'stored branches are not trained on again'),
  ):
    if value != allowed:
      raise ValueError(
        f'{path} must be {allowed!r} {alone}, since {why}, got {value!r};'
        f' set it, or {_FULL}'
      )
  if kind.purify is not None:
    raise ValueError(
      f'rollout.kind must be one that keeps failed calls {alone}, whose'
      f' summaries speak of them, got {c.rollout.kind!r}; {_FULL}'
    )
  if lengths.gives_turns(spec.prefix):
    raise ValueError(
      f"prefix must be 'none' {alone}, since given turns have no summaries,"
      f' got {spec.prefix!r}; {_FULL}'
    )
  for name in c.sft.mix:
    if c.mix[name].kind != 'demonstrations':
      raise ValueError(
        f"mix.{name}.kind must be 'demonstrations' {alone}, since stored"
        f' branches are not trained on again, got {c.mix[name].kind!r}; {_FULL}'
      )


def family(c: Config, family: base_env.EnvFamily) -> None:
  """Checks the environment of compacted conversations."""
  if c.rollout.history != 'compact':
    return
  if SUMMARY in family.columns:
    raise ValueError(
      f'columns of env.name={c.env.name!r} must not have {SUMMARY!r}, the term'
      f" of summaries, with rollout.history='compact', got {family.columns};"
      ' rename it'
    )
  shown = [x for x in stages.plans(c) if x.kind == 'sft']
  own = base_env.of(to_dict(c.env))
  writes = isinstance(own, base_env.WritesSummaries)
  if shown and c.compaction.summary != 'none' and not writes:
    raise ValueError(
      f'stages must not have {shown[0].name!r} with'
      f" rollout.history='compact' for env.name={c.env.name!r}, whose"
      f' demonstrations have no summaries, got {tuple(c.stages)}; leave it out,'
      ' or give the family a method `summary`'
    )
