"""Host environments: Python objects that exchange text with the agent.

An `EnvFamily` is a frozen dataclass of settings that makes tasks and
environments for them; its fields are those of `c.env`. It is sent to the
process of an environment, so it is picklable, and imports heavy packages when
used. An environment must be a function of its task, its seed and the messages
it got: only then are runs reproducible and branches correct.

Ten protocols say what a class of yours may implement; members of these names
are enough, nothing is inherited. The first two are needed.

  protocol        members                 what it is for
  HostEnv         reset step close        plays tasks, one after another
  EnvFamily       columns system worker   makes tasks, and environments to play
                  name tasks env          them in
  NeedsServices   needs served            its environments ask simulated users
                                          or judges (c.service)
  FiniteFamily    sizes                   its tasks are those of a file
  ChecksSettings  check                   refuses settings before a run begins
  MarksCalls      spans                   says where messages call tools, for
                                          methods that weigh parts of a message
  OwnProcess      python maker            environments run in an interpreter of
                                          their own
  EnvMaker        columns env             the part of it that is sent there
  PlaysPrograms   branches calls start    a program plays the task and calls the
                  grade check             policy over HTTP
  ProgramRun      wait kill               that program
"""

import dataclasses
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from agentrl.runtime import install
from agentrl.service.base import Service

if TYPE_CHECKING:  # it imports numpy, which children lack
  from agentrl.text.spans import Interval

WORKERS = ('thread', 'process')

# Families that ship, by what c.env.name calls them. Any other is named by
# 'module:Class'.
FAMILIES: dict[str, str] = {
  'alfworld': 'agentrl.env.external.alfworld:AlfWorld',
  'consultation': 'agentrl.env.worlds.consultation:Consultation',
  'countdown': 'agentrl.env.worlds.countdown:Countdown',
  'event_stream': 'agentrl.env.worlds.event_stream:EventStream',
  'fact_corpus': 'agentrl.env.worlds.fact_corpus.env:FactCorpus',
  'gymnasium_text': 'agentrl.env.external.gymnasium_text:GymnasiumText',
  'hidden_slots': 'agentrl.env.worlds.hidden_slots:HiddenSlots',
  'in_context_regression': (
    'agentrl.env.worlds.in_context_regression:InContextRegression'
  ),
  'interview': 'agentrl.env.worlds.interview:Interview',
  'itinerary': 'agentrl.env.worlds.itinerary:Itinerary',
  'jsonl': 'agentrl.env.files.jsonl:Jsonl',
  'math_python': 'agentrl.env.worlds.math_python:MathPython',
  'mcp': 'agentrl.env.external.mcp:Mcp',
  'minigrid': 'agentrl.env.external.minigrid:MiniGrid',
  'openenv': 'agentrl.env.external.openenv:OpenEnv',
  'pettingzoo': 'agentrl.env.external.pettingzoo:PettingZoo',
  'reasoning_gym': 'agentrl.env.external.reasoning_gym:ReasoningGym',
  'program': 'agentrl.env.files.program:Program',
  'recommendation': 'agentrl.env.worlds.recommendation:Recommendation',
  'scienceworld': 'agentrl.env.external.scienceworld:ScienceWorld',
  'search_questions': 'agentrl.env.worlds.search_questions:SearchQuestions',
  'shop': 'agentrl.env.worlds.shop.env:Shop',
  'shop_logs': 'agentrl.env.worlds.shop.logs:ShopLogs',
  'sql_questions': 'agentrl.env.worlds.sql_questions:SqlQuestions',
  'table_questions': 'agentrl.env.worlds.table_questions:TableQuestions',
  'textarena': 'agentrl.env.external.textarena:TextArena',
  'textworld_coin': (
    'agentrl.env.external.textworld.coin_collector:CoinCollector'
  ),
  'textworld_express': (
    'agentrl.env.external.textworld.express:TextWorldExpress'
  ),
  'toy_text': 'agentrl.env.external.toy_text:ToyText',
  'unreliable_tools': 'agentrl.env.worlds.unreliable_tools.env:UnreliableTools',
  'verifiers': 'agentrl.env.external.verifiers:Verifiers',
}

SET = ('name', 'train', 'test', 'seed')  # of c.env: not the family's


class Step(NamedTuple):
  """Result of a message."""

  text: str  # the next observation; of no use once done
  reward: float = 0.0  # within ±1e12, as info is: rollout/workers/replies.py
  done: bool = False
  score: float = 0.0  # the task's own, in [0, 1]: 1 solved, 0 not
  invalid: bool = False  # the message was not understood
  role: str = 'user'  # of `text` in a chat: 'user' or 'tool'
  info: Mapping[str, float] = {}  # of this turn, by the family's columns


class HostEnv(Protocol):
  """One environment; plays one task after another, each begun by `reset`.

  What it raises costs its trajectory, and the environment with it: the next
  trajectory gets a new one.
  """

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    """Begins a task: -> the first observation.

    Args:
      task: as the family made it.
      seed: of all that is random here, in [0, 2³¹).
    """

  def step(self, message: str) -> Step:
    """One turn; not called once done."""

  def close(self) -> None:
    """Ends what it holds: processes, connections, folders."""


class HostTask(NamedTuple):
  """A task, and messages that solve it."""

  task: dict[str, Any]  # what JSON can hold
  demonstration: tuple[str, ...]  # a demonstration; empty where none is known
  key: str  # content id: equal for what the family counts as the same task


class EnvFamily(Protocol):
  """Settings that make tasks, and environments to play them in."""

  @property
  def columns(self) -> tuple[str, ...]:
    """The names of the info values in a `Step`."""

  @property
  def system(self) -> str:
    """System text; '': none."""

  @property
  def worker(self) -> str:
    """Kind of worker to run in: one of `WORKERS`.

    A 'thread' for what waits for others; its calls cannot be stopped. A
    'process' for what computes, or may hang, leak or crash.
    """

  def name(self) -> str:
    """Short, safe in file names, with a hash of all settings."""

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Exactly `count` distinct tasks of a split; the same for the same seed.

    No key is ever in both splits, whatever the counts and seeds.

    Raises:
      ValueError: unknown split, negative seed, or fewer tasks than asked for.
    """

  def env(self) -> HostEnv:
    """A new environment; called in its worker.

    Raises:
      ValueError: a package, a file or a program is missing; how to get it.
    """


@runtime_checkable
class NeedsServices(EnvFamily, Protocol):
  """A family whose environments ask users or judges; they live in threads."""

  @property
  def needs(self) -> tuple[str, ...]:
    """The names of the services, as in `c.service`."""

  def served(self, services: Mapping[str, Service]) -> EnvFamily:
    """The family with these services, which are all of `needs`."""


@runtime_checkable
class FiniteFamily(EnvFamily, Protocol):
  """A family that has only the tasks of the user's files."""

  def sizes(self) -> Mapping[str, int]:
    """Tasks by split, at least one in each.

    Raises:
      ValueError: there are fewer, or a file cannot be used.
    """


@runtime_checkable
class ChecksSettings(EnvFamily, Protocol):
  """A family that finds mistakes in its settings before anything is made."""

  def check(self) -> None:
    """Raises ValueError for settings that cannot be used."""


class EnvMaker(Protocol):
  """The part of a family that makes environments.

  Its module imports nothing that a bare Python lacks.
  """

  @property
  def columns(self) -> tuple[str, ...]:
    """As of the family."""

  def env(self) -> HostEnv:
    """As of the family."""


@runtime_checkable
class OwnProcess(EnvFamily, Protocol):
  """A family whose environments share no process, and no package with ours."""

  @property
  def python(self) -> str:
    """Interpreter of another virtual environment; '': this one."""

  @property
  def maker(self) -> EnvMaker:
    """The part that is sent to that interpreter."""


class ProgramRun(Protocol):
  """A program that plays a task."""

  def wait(self) -> None:
    """Runs it to its end; raises what it raised, or that it failed."""

  def kill(self) -> None:
    """Stops it where that can be done, from any thread."""


@runtime_checkable
class PlaysPrograms(ChecksSettings, Protocol):
  """A family whose tasks are played by programs, which call the policy."""

  @property
  def branches(self) -> int:
    """Whole conversations that the branches of a trajectory may fill."""

  @property
  def calls(self) -> str:
    """Format of tool calls in messages."""

  def start(
    self, task: Mapping[str, Any], seed: int, address: str, key: str
  ) -> ProgramRun:
    """A program for a task, not yet run.

    Args:
      address: of its session; clients add /v1/...
      key: that they show
    """

  def grade(
    self, task: Mapping[str, Any], messages: Sequence[Mapping[str, str]]
  ) -> float | None:
    """The score in [0, 1] of a conversation; None: the program posts it.

    Args:
      messages: of the last call and its answer, each a 'role' and a 'content'
    """


@runtime_checkable
class MarksCalls(EnvFamily, Protocol):
  """A family whose messages call tools, or act in a syntax of its own."""

  def spans(self, message: str) -> 'Sequence[Interval]':
    """The parts of a message, as `text.spans.mark` gives them.

    What is 'call' or 'argument' is what its environments take as one.
    """


@dataclasses.dataclass(frozen=True)
class WithServices:
  """A family whose environments query its services."""

  family: EnvFamily
  env: Callable[[], HostEnv]

  @property
  def columns(self) -> tuple[str, ...]:
    return self.family.columns

  @property
  def system(self) -> str:
    return self.family.system

  @property
  def worker(self) -> str:
    return self.family.worker

  def name(self) -> str:
    return self.family.name()

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    return self.family.tasks(split, count, seed)

  def spans(self, message: str) -> 'Sequence[Interval]':
    return spans(self.family, message)


def needs(family: EnvFamily) -> tuple[str, ...]:
  """Names of the services that environments of a family query."""
  return family.needs if isinstance(family, NeedsServices) else ()


def sizes(family: EnvFamily) -> Mapping[str, int]:
  """The most tasks by split; {} where there are as many as one asks for."""
  return family.sizes() if isinstance(family, FiniteFamily) else {}


def spans(family: EnvFamily, message: str) -> 'Sequence[Interval]':
  """The parts of a message; thought and answer where a family marks none."""
  if isinstance(family, MarksCalls):
    return family.spans(message)
  from agentrl.text import spans as spans_lib  # as above

  return spans_lib.mark(message)


def with_services(
  family: EnvFamily, services: Mapping[str, Service]
) -> EnvFamily:
  """The family, ready to make environments.

  Raises:
    ValueError: it needs a service that is not there.
  """
  if not isinstance(family, NeedsServices):
    return family
  if lacking := [name for name in family.needs if name not in services]:
    raise ValueError(
      f'{type(family).__name__} asks services {lacking}, which are not there;'
      f' give it all of {family.needs}'
    )
  return family.served(services)


def missing_services(family: NeedsServices) -> ValueError:
  """Error of `NeedsServices.env` when no services were given."""
  return ValueError(
    f'environments of {type(family).__name__} ask services {family.needs}; give'
    ' them by base.with_services(family, services)'
  )


def find(name: str) -> type:
  """The family of a name.

  Raises:
    ValueError: there is none, no such module or class, or it is no `EnvFamily`.
  """
  path = FAMILIES.get(name, name)
  module, colon, cls = path.partition(':')
  if not colon:
    from agentrl.domain import suggest  # imports numpy, which children lack

    raise ValueError(
      f'env.name={name!r} is unknown{suggest(name, FAMILIES)}; choose'
      f' from {sorted(FAMILIES)}, or name a family of your own as'
      " 'module:Class'"
    )
  try:
    family = getattr(importlib.import_module(module), cls)
  except Exception as error:  # whatever the user's module raises
    raise ValueError(
      f'env.name={name!r} names no family ({error}); give the module as Python'
      ' imports it, and a class in it'
    ) from error
  if wrong := _wrong(family):
    raise ValueError(f'env.name={name!r} is no family: {wrong}')
  return family


def _wrong(family: Any) -> str:
  """Error text if it is no `EnvFamily`, else ''."""
  if not (isinstance(family, type) and dataclasses.is_dataclass(family)):
    return 'it is no dataclass; make it a frozen dataclass of settings'
  fields = settings(family)
  has = {*fields, *dir(family)}
  members = [x for x in vars(EnvFamily) if not x.startswith('_')]
  if lacks := [x for x in members if x not in has]:
    return f'it lacks {lacks}, which agentrl.env.base.EnvFamily describes'
  if taken := [x for x in SET if x in fields]:
    return f'its fields {taken} are taken by c.env; call them otherwise'
  if bare := [x for x in fields if fields[x] is dataclasses.MISSING]:
    return f'its fields {bare} have no default; give each a plain value'
  return ''


def settings(family: type) -> dict[str, Any]:
  """The fields of a family and their defaults: what c.env holds."""
  return {f.name: f.default for f in dataclasses.fields(family)}


def of(env: Mapping[str, Any]) -> EnvFamily:
  """The family of a config's `env`. Raises ValueError for another's."""
  fields = {name: x for name, x in env.items() if name not in SET}
  family = find(env['name'])
  for name in sorted(fields.keys() - settings(family).keys()):
    raise ValueError(
      f'env.name={env["name"]!r} has no setting {name!r}, which env.{name}='
      f'{fields[name]!r:.40} sets for another; choose the environment in the'
      f' argument of the config, as --config=NAME:env={env["name"]}'
    )
  return family(**fields)


def missing(package: str, extra: str) -> ValueError:
  """Error of an environment whose package is not installed."""
  return ValueError(
    f'this environment needs the package {package}, which is not installed;'
    f' run {install.command(extra)}'
  )
