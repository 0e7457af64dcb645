"""Host environments of a config: family, tasks, chat format and sizes."""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import jax

from agentrl import registry
from agentrl.configs import base as base_config
from agentrl.configs import envs
from agentrl.configs.config import Config, to_dict
from agentrl.dataset import host_tasks
from agentrl.env import base
from agentrl.env.asking import AsksMemory
from agentrl.env.seats import SeatedFamily
from agentrl.recall import base as recall_base
from agentrl.recall import observed
from agentrl.rollout.bundle import HostEnvBundle
from agentrl.rollout.compaction import Compaction
from agentrl.rollout.edits import ContextEdits
from agentrl.rollout.engine import engine
from agentrl.rollout.hinted import Hint
from agentrl.rollout.host import CUT
from agentrl.rollout.limits import EpisodeLimits
from agentrl.rollout.record import Capacity
from agentrl.rollout.workers import executors
from agentrl.rollout.workers.pool import EnvWorkerPool, env_workers
from agentrl.run.check import compaction_checks, env_checks, service_checks
from agentrl.run.play import readings, remote_engine
from agentrl.text import chat_format, chat_template, context_edits
from agentrl.text.chat_template import Message
from agentrl.text.tokenizer import Tokenizer
from agentrl.text.tool_calls import format_of


class HostEnvSpec(NamedTuple):
  """Family and sizes, before there are tasks."""

  family: base.EnvFamily
  talk: chat_format.ChatFormat
  plan: EpisodeLimits
  system: str  # message
  actions: tuple[str, ...] = ()  # what is written is an action as it stands
  systems: tuple[str, ...] = ()  # of several seats, each one's; (): one plays

  @property
  def source(self) -> base.EnvFamily:
    """Of tasks."""
    return self.family

  @property
  def capacity(self) -> Capacity:
    return self.plan.capacity


def sized(
  c: Config, words: Tokenizer, chat: chat_template.Chat | None
) -> HostEnvSpec:
  """Checks the host-environment settings of the config."""
  if c.rollout.slots % jax.process_count():
    raise ValueError(
      f'rollout.slots={c.rollout.slots} is not divisible by the'
      f' {jax.process_count()} processes that share them; make it a multiple'
    )
  env_checks.family(c)
  family = envs.family(c)
  env_checks.programs(c, family)
  env_checks.host_seats(c, family)
  executors.check_package(c.host.worker)
  remote_engine.validate(c)
  service_checks.services(c, base.needs(family), c.host.worker or family.worker)
  service_checks.judges(c, envs.terms(c))
  writes = isinstance(base.of(to_dict(c.env)), base.WritesSummaries)
  compaction_checks.environment(c, family.columns, writes=writes)
  talk = chat_format.framed(chat) if chat else chat_format.bare(words)
  env_checks.observations(c, talk)
  # Some templates take only one system message.
  texts = c.rollout.system, family.system, edits_taught(c)
  system = '\n'.join(filter(None, texts))
  systems: tuple[str, ...] = ()
  if isinstance(family, SeatedFamily) and family.seat_names:
    own = [family.seat_system(seat) for seat in family.seat_names]
    systems = tuple('\n'.join(filter(None, (system, text))) for text in own)
    system = max(systems, key=lambda x: len(talk.words.encode(x)))
  plan = limits(c, system, talk)
  if isinstance(family, base.PlaysPrograms):
    plan = dataclasses.replace(plan, row=family.branches * plan.context)
  return HostEnvSpec(family, talk, plan, system, systems=systems)


def parts(c: Config, spec: HostEnvSpec, sets=None):
  """Returns the environment with all tasks, then those to train and to test.

  Args:
    sets: (train, test) where they are loaded already
  """
  train, test = sets or task_sets(c, spec.family)
  stop = None
  if c.host.stop_strings:
    stop = engine.texts(c.host.stop_strings, spec.talk.words.decode)
  stage = HostEnvBundle(
    tasks=[*train.tasks, *test.tasks],
    family=spec.family,
    talk=spec.talk,
    limits=spec.plan,
    system=spec.system,
    action_prefix=c.rollout.action_prefix,
    top_k=c.rollout.top_k,
    top_p=c.rollout.top_p,
    stop=stop,
    systems=spec.systems,
  )
  return stage, train, test


def guided(
  world: HostEnvBundle,
  spec: registry.MethodSpec,
  hints: Mapping[str, Hint],
  train: host_tasks.HostTaskSet,
) -> HostEnvBundle:
  """Gives environments the hints that attempts are sampled behind."""
  name = readings.sampled_behind(spec)
  if not name:
    return world
  made = readings.guidance(hints[name], len(train.tasks))
  return world._replace(guidance=made)


def recalling(
  c: Config, world: HostEnvBundle, words: Tokenizer
) -> HostEnvBundle:
  """Gives environments what their turns read by, where they read."""
  spec = base_config.wiring(c)
  recall = recall_base.of(spec)
  if not recall or not recall.every:
    return world
  values = spec.values('recall', spec.recall)
  choose = registry.bind('recall', spec.recall, values, 'c.recall')
  family, asked = base.of(to_dict(c.env)), None
  if recall.every == recall_base.ASKED and isinstance(family, AsksMemory):
    asked = family.asked
  reader = observed.Reader(recall, choose, words, c.seed, asked)
  return world._replace(reader=reader)


def demonstrated(c: Config, world: HostEnvBundle) -> HostEnvBundle:
  """Gives demonstrations the summaries that their expert writes."""
  own, compaction = base.of(to_dict(c.env)), world.limits.compaction
  if compaction and compaction.writes and isinstance(own, base.WritesSummaries):
    return world._replace(expert=own.summary)
  return world


def task_sets(c: Config, family: base.EnvFamily):
  """Loads the train and the test tasks; a file may have fewer."""
  most = base.sizes(family)
  count = {'train': c.env.train, 'test': c.env.test}
  count = {x: min(n, most.get(x, n)) for x, n in count.items()}
  return [
    host_tasks.load(family, split, n, c.env.seed, folder=c.data)
    for split, n in count.items()
  ]


def limits(
  c: Config, system: str, talk: chat_format.ChatFormat
) -> EpisodeLimits:
  """Returns limits of a trajectory; a context of 0 fits all turns."""
  r, h = c.rollout, c.host
  begin = [Message('system', system)] if system else []
  cut = [Message('user', CUT)]
  least = len(talk.start(cut).ids)
  notes = readings.tokens_of_notes(c)
  opening = len(talk.start([*begin, *cut]).ids) - least + notes
  if h.max_observation_tokens < least:
    raise ValueError(
      f'host.max_observation_tokens={h.max_observation_tokens} tokens cannot'
      f' even say that an observation was cut; set it to {least} or more'
    )
  turn = h.max_observation_tokens + r.max_message_tokens
  recall = recall_base.of(base_config.wiring(c))
  if recall and recall.again and r.history == 'full':
    turn += notes
  context = opening + r.window * turn
  if r.history in ('full', 'edit'):
    context = r.context or opening + r.max_turns * turn
  compaction = edits = None
  if r.history == 'edit':
    e = c.edits
    edits = ContextEdits(context, r.max_turns, e.most, e.calls, e.arm)
  if r.history == 'compact':
    compaction = compacted(c, opening, talk)
    context = compaction.context
  branched = compaction or edits
  return EpisodeLimits(
    context=context,
    turns=r.max_turns,
    message=r.max_message_tokens,
    observation=h.max_observation_tokens,
    opening=opening,
    history=r.history,
    window=r.window,
    seconds=h.step_timeout,
    start=h.reset_timeout,
    patience=h.episode_timeout,
    row=branched.row if branched else 0,
    compaction=compaction,
    edits=edits,
    notes=notes,
    recalled=observed.columns(recall) if recall else (),
  )


def edits_taught(c: Config) -> str:
  """Describes the call that drops turns; '' where it is not to be taught."""
  if c.rollout.history != 'edit' or not c.edits.teach:
    return ''
  return format_of(c.edits.calls).teach([context_edits.DROP])


def compacted(
  c: Config, opening: int, talk: chat_format.ChatFormat
) -> Compaction:
  """Returns when conversations begin anew, and their sizes.

  Args:
    opening: tokens before the first observation
  Raises:
    ValueError: they would be too long as soon as they begin.
  """
  m, observation = c.compaction, c.host.max_observation_tokens
  writes = m.summary != 'none'
  request = [Message('user', m.request)]
  first = talk.start(request)
  # Behind a reply that was cut short, which is the longer.
  cut = talk.add_reply(first, talk.words.encode('x'))
  asking = len(talk.add_messages(cut, request).ids) - len(cut.ids)
  head = observation if m.keep_task else writes * len(first.ids)
  restart = opening + head + writes * m.tokens + observation
  low, high = m.threshold
  lower = 'compaction.tokens or host.max_observation_tokens'
  compaction_checks.threshold(c, restart, lower)
  return Compaction(
    low=low,
    high=high,
    tokens=m.tokens,
    most=m.most,
    request=m.request,
    asking=asking,
    restart=restart,
    keep_task=m.keep_task,
    arm=m.summary,
  )


def workers(c: Config, family: base.EnvFamily, count: int) -> EnvWorkerPool:
  """Creates the workers of a run, where c.host has them."""
  h = c.host
  return env_workers(
    family,
    count,
    worker=h.worker or None,
    cluster=h.cluster,
    callback=h.callback,
  )


def sizes(c: Config, capacity: int) -> engine.Sizes:
  """Returns the sizes that each process's slot engine is compiled for."""
  h = c.host
  return engine.Sizes(
    slots=c.rollout.slots // jax.process_count(),
    capacity=capacity,
    burst=h.decode_steps_per_sync,
    chunk=h.prefill_chunk,
    lanes=h.prefill_slots,
  )


def models(c: Config) -> dict[tuple[str, str], int]:
  """Maps (role, run) of each model of services to its capacity."""
  room: dict[tuple[str, str], int] = {}
  for service in c.service.values():
    if service.role or service.run:
      at = service.role, service.run
      room[at] = max(room.get(at, 0), service.context)
  return room


def messages(
  c: Config, words: Tokenizer, demos: list[list[str]], *, seats: int = 1
) -> list[list[list[int]]]:
  """Encodes demonstrations, each message with its end of turn.

  Args:
    seats: who share the messages of a demonstration, as in a match
  Raises:
    ValueError: for one longer than a message or a trajectory may be.
  """
  tokens = [
    [[*words.encode(text), words.eot] for text in texts] for texts in demos
  ]
  longest = max((len(m) for texts in tokens for m in texts), default=0)
  if longest > c.rollout.max_message_tokens:
    raise ValueError(
      f'a demonstration has a message of {longest} tokens with its end of turn'
      f' and rollout.max_message_tokens={c.rollout.max_message_tokens} allows'
      f' fewer; set it to {longest}'
    )
  turns = -(-max(map(len, tokens), default=0) // seats)
  if turns > c.rollout.max_turns:
    raise ValueError(
      f'a demonstration has {turns} turns and rollout.max_turns='
      f'{c.rollout.max_turns} allows fewer; set it to {turns}'
    )
  return tokens
