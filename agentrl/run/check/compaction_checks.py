"""Checks of conversations in segments: behind a summary, or edited.

All of it is found before anything is built or compiled.
"""

from agentrl import registry
from agentrl.configs import stages
from agentrl.configs.config import Config
from agentrl.env.jit import base as jit_base
from agentrl.prefix import lengths
from agentrl.rollout import edits, registered
from agentrl.rollout.compaction import SUMMARY

_FULL = "set rollout.history to 'full'"
# History in segments -> its terms.
_TERMS = {'compact': (SUMMARY,), 'edit': edits.TERMS}


def check(c: Config, spec: registry.MethodSpec) -> None:
  """Checks what plays a segmented conversation, and what it is trained on."""
  if c.rollout.history not in _TERMS:
    return
  kind = registered.kind_of(spec)
  if not kind.on_host and c.rollout.history == 'edit':
    raise ValueError(
      "rollout.history must be 'turn', 'full' or 'compact' for"
      f' env.name={c.env.name!r}, which is played inside jit, got'
      f' {c.rollout.history!r}; set it, or take a host environment'
    )
  if kind.subgoal_words is not None:
    raise ValueError(
      'rollout.kind must be one without subgoals with rollout.history='
      f'{c.rollout.history!r}, since summaries have none, got'
      f' {c.rollout.kind!r}; {_FULL}'
    )
  if c.rollout.history == 'compact':
    _sizes(c)
  _fits(c, spec, kind)


def _sizes(c: Config) -> None:
  """Checks the sizes of summaries and of what they make room for."""
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
  if c.rollout.context:
    raise ValueError(
      "rollout.context must be 0 with rollout.history='compact', where"
      f' compaction.threshold is the length, got {c.rollout.context}; set it,'
      f' or {_FULL}'
    )


def _fits(
  c: Config, spec: registry.MethodSpec, kind: registered.RolloutKind
) -> None:
  """Checks that what reads trajectories can do with their segments."""
  alone = f'with rollout.history={c.rollout.history!r}'
  for path, value, allowed, why in (
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
      f'rollout.kind must be one that keeps failed calls {alone}, whose later'
      f' turns speak of them, got {c.rollout.kind!r}; {_FULL}'
    )
  if lengths.gives_turns(spec.prefix):
    raise ValueError(
      f"prefix must be 'none' {alone}, since given turns have no segments,"
      f' got {spec.prefix!r}; {_FULL}'
    )
  for name in c.sft.mix:
    if c.mix[name].kind != 'demonstrations':
      raise ValueError(
        f"mix.{name}.kind must be 'demonstrations' {alone}, since stored"
        f' branches are not trained on again, got {c.mix[name].kind!r}; {_FULL}'
      )


def threshold(c: Config, restart: int, lower: str) -> None:
  """Checks that a conversation that begins anew has room for a message.

  Args:
    restart: tokens of a prompt that begins a segment, at most
    lower: the fields that it grows with
  """
  least = restart + c.rollout.max_message_tokens
  if c.compaction.threshold[0] < least:
    raise ValueError(
      f'compaction.threshold must begin at {least} or more, the tokens of a'
      ' prompt that begins anew and of a message, got'
      f' {tuple(c.compaction.threshold)}; raise it, or lower {lower}'
    )


def environment(c: Config, columns: tuple[str, ...], *, writes: bool) -> None:
  """Checks the environment of segmented conversations.

  Args:
    columns: its own terms
    writes: its demonstrations have summaries
  """
  history = c.rollout.history
  for term in _TERMS.get(history, ()):
    if term in columns:
      raise ValueError(
        f'columns of env.name={c.env.name!r} must not have {term!r}, a term of'
        f' rollout.history={history!r}, got {columns}; rename it'
      )
  shown = _shown(c)
  if history == 'compact' and shown and not writes:
    raise ValueError(
      f'stages must not have {shown!r} with'
      f" rollout.history='compact' for env.name={c.env.name!r}, whose"
      f' demonstrations have no summaries, got {tuple(c.stages)}; leave it out,'
      ' or give the environment a method `summary`'
    )


def demonstrated(c: Config, tokens: int) -> None:
  """Checks that demonstrated summaries fit compaction.tokens."""
  if _shown(c) and tokens > c.compaction.tokens:
    raise ValueError(
      f'compaction.tokens must be >= {tokens}, the tokens of a demonstrated'
      f' summary in env.name={c.env.name!r}, got {c.compaction.tokens}'
    )


def _shown(c: Config) -> str:
  """Returns the first stage that shows summaries; '': none does."""
  if c.compaction.summary == 'none':
    return ''
  names = [x.name for x in stages.plans(c) if x.kind == 'sft']
  return names[0] if names else ''


def seats(c: Config, env: jit_base.JitEnv) -> None:
  """Checks that a segmented conversation has an attempt to itself."""
  if c.rollout.history in _TERMS and isinstance(env, jit_base.SeatedEnv):
    raise ValueError(
      f"rollout.history must be 'turn' or 'full' for env.name={c.env.name!r},"
      f' whose seats share an attempt, got {c.rollout.history!r}; set it, or'
      ' set env.opponent'
    )
