"""Host environments: Python objects that exchange text with the agent.

An `EnvFamily` is a frozen dataclass of settings that makes tasks and
environments for them; its fields are the settings in `c.env`. It is sent to
processes, so it must be picklable and import heavy packages lazily. An
environment must be a function of its task, its seed and the messages it got.

Thirteen protocols list what your class may implement; they are structural, so
nothing is inherited. The first two are required.

  protocol        members                 what it is for
  HostEnv         reset step close        plays tasks, one after another
  EnvFamily       columns system worker   makes tasks and environments
                  name tasks env
  CanFork         fork                    an environment that copies itself, so
                                          that searches need not replay it
  NeedsServices   needs served            its environments ask simulated users
                                          or judges (c.service)
  FiniteFamily    sizes                   its tasks come from a file
  ChecksSettings  check                   rejects settings before a run begins
  DescribesTasks  describe                what an agent sees of a task, for a
                                          memory that is read by it (c.recall)
  MarksCalls      spans                   marks tool calls in messages, for
                                          methods that weigh parts of a message
  OwnProcess      python maker            environments run in their own Python
  EnvMaker        columns env             the part that is sent there
  PlaysPrograms   branches calls start    a program plays the task and calls the
                  grade check             policy over HTTP
  ProgramRun      wait kill               that program
  WritesSummaries summary                 its demonstrations go on behind
                                          summaries (rollout.history 'compact')

Families of games with seats: env/seats.py; of goals in hindsight: env/goals.py.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from agentrl.runtime import install, objects
from agentrl.service.base import Service

if TYPE_CHECKING:  # it imports numpy, which children lack
  from agentrl.text.spans import Interval

WORKERS = ('thread', 'process')
# Where episodes may be sent; there each is in the worker of its family.
CLUSTERS = ('dask', 'ray')
DESCRIBED = 'env:described'  # what describes its tasks gives to components
JIT = 'jit'  # of families whose environments are compiled (env/jit/base.py)

# Families that ship, by c.env.name; any other is named by 'module:Class'.
FAMILIES: dict[str, str] = {
  'alfworld': 'agentrl.env.external.alfworld:AlfWorld',
  'bug_fixes': 'agentrl.env.worlds.bug_fixes:BugFixes',
  'case_corpus': 'agentrl.env.worlds.case_corpus:CaseCorpus',
  'commons': 'agentrl.env.worlds.commons:Commons',
  'consultation': 'agentrl.env.worlds.consultation:Consultation',
  'countdown': 'agentrl.env.worlds.countdown:Countdown',
  'critiques': 'agentrl.env.worlds.critiques:Critiques',
  'door_codes': 'agentrl.env.worlds.door_codes:DoorCodes',
  'errands': 'agentrl.env.worlds.errands:Errands',
  'event_stream': 'agentrl.env.worlds.event_stream:EventStream',
  'fact_corpus': 'agentrl.env.worlds.fact_corpus.env:FactCorpus',
  'gymnasium_text': 'agentrl.env.external.gymnasium_text:GymnasiumText',
  'hidden_slots': 'agentrl.env.worlds.hidden_slots:HiddenSlots',
  'household': 'agentrl.env.worlds.household:Household',
  'in_context_regression': (
    'agentrl.env.worlds.in_context_regression:InContextRegression'
  ),
  'injected_errors': 'agentrl.env.worlds.injected_errors:InjectedErrors',
  'interview': 'agentrl.env.worlds.interview:Interview',
  'itinerary': 'agentrl.env.worlds.itinerary:Itinerary',
  'jsonl': 'agentrl.env.files.jsonl:Jsonl',
  'lookups': 'agentrl.env.worlds.lookups:Lookups',
  'math_python': 'agentrl.env.worlds.math_python:MathPython',
  'mcp': 'agentrl.env.external.mcp:Mcp',
  'minigrid': 'agentrl.env.external.minigrid:MiniGrid',
  'negotiation': 'agentrl.env.worlds.negotiation:Negotiation',
  'norms': 'agentrl.env.worlds.norms:Norms',
  'openenv': 'agentrl.env.external.openenv:OpenEnv',
  'pettingzoo': 'agentrl.env.external.pettingzoo:PettingZoo',
  'proposed_chores': 'agentrl.env.worlds.proposed_chores:ProposedChores',
  'proposed_countdown': (
    'agentrl.env.worlds.proposed_countdown:ProposedCountdown'
  ),
  'proposed_facts': 'agentrl.env.worlds.proposed_facts:ProposedFacts',
  'reasoning_gym': 'agentrl.env.external.reasoning_gym:ReasoningGym',
  'program': 'agentrl.env.files.program:Program',
  'recommendation': 'agentrl.env.worlds.recommendation:Recommendation',
  'reflections': 'agentrl.env.worlds.reflections:Reflections',
  'scienceworld': 'agentrl.env.external.scienceworld:ScienceWorld',
  'search_questions': 'agentrl.env.worlds.search_questions:SearchQuestions',
  'sessions': 'agentrl.env.worlds.sessions.env:Sessions',
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

# Families inside jit that ship.
JIT_FAMILIES: dict[str, str] = {
  'baskets': 'agentrl.env.jit.baskets:Baskets',
  'carried_code': 'agentrl.env.jit.carried_code:CarriedCode',
  'connect_four': 'agentrl.env.jit.games.family:ConnectFour',
  'coopetition': 'agentrl.env.jit.games.family:Coopetition',
  'kuhn_poker': 'agentrl.env.jit.games.family:KuhnPoker',
  'leduc_poker': 'agentrl.env.jit.games.family:LeducPoker',
  'pioneer_observer': 'agentrl.env.jit.games.family:PioneerObserver',
  'solver_verifier': 'agentrl.env.jit.games.family:SolverVerifier',
  'tic_tac_toe': 'agentrl.env.jit.games.family:TicTacToe',
  'workflow': 'agentrl.env.jit.games.family:Workflow',
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

  An exception ends its trajectory and discards the environment; the next
  trajectory gets a new one.
  """

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    """Begins a task and returns the first observation.

    Args:
      task: as the family made it.
      seed: of all randomness in the episode, in [0, 2³¹).
    """

  def step(self, message: str) -> Step:
    """Plays one turn; not called once done."""

  def close(self) -> None:
    """Releases processes, connections and folders."""


@runtime_checkable
class CanFork(HostEnv, Protocol):
  """Environment that copies itself in the middle of a task.

  Where it cannot, a search replays its task, and the turns that it repeats are
  counted. Environments inside jit are copied as they are.
  """

  def fork(self) -> 'HostEnv':
    """Returns another environment that goes on from here, as this one does.

    Both reply alike to the same messages; neither changes the other.
    """


class HostTask(NamedTuple):
  """Task with messages that solve it."""

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
    """Kind of worker to run in: one of `WORKERS`, or `JIT`.

    Use 'thread' for environments that wait on I/O; its calls cannot be stopped.
    Use 'process' for ones that compute, or may hang, leak or crash.
    """

  def name(self) -> str:
    """Returns a short file-safe name with a hash of all settings."""

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Yields exactly `count` distinct tasks of a split, fixed by the seed.

    No key is ever in both splits, whatever the counts and seeds.

    Raises:
      ValueError: unknown split, negative seed, or fewer tasks than asked for.
    """

  def env(self) -> HostEnv:
    """Makes a new environment; called in its worker.

    Raises:
      ValueError: a package, file or program is missing; says how to get it.
    """


@runtime_checkable
class NeedsServices(EnvFamily, Protocol):
  """Family whose environments query users or judges; they run in threads."""

  @property
  def needs(self) -> tuple[str, ...]:
    """The names of the services, as in `c.service`."""

  def served(self, services: Mapping[str, Service]) -> EnvFamily:
    """Returns the family with these services, all of `needs`."""


@runtime_checkable
class FiniteFamily(EnvFamily, Protocol):
  """Family whose tasks all come from the user's files."""

  def sizes(self) -> Mapping[str, int]:
    """Returns the number of tasks by split, at least one in each.

    Raises:
      ValueError: there are fewer, or a file cannot be used.
    """


@runtime_checkable
class ChecksSettings(EnvFamily, Protocol):
  """Family that validates its settings before anything is built."""

  def check(self) -> None:
    """Raises ValueError for settings that cannot be used."""


class EnvMaker(Protocol):
  """Part of a family that makes environments.

  Its module imports only the standard library.
  """

  @property
  def columns(self) -> tuple[str, ...]:
    """As of the family."""

  def env(self) -> HostEnv:
    """Returns an environment, as the family does."""


@runtime_checkable
class OwnProcess(EnvFamily, Protocol):
  """Family whose environments run in a process with its own packages."""

  @property
  def python(self) -> str:
    """Interpreter of another virtual environment; '': this one."""

  @property
  def maker(self) -> EnvMaker:
    """The part that is sent to that interpreter."""


class ProgramRun(Protocol):
  """Program that plays a task."""

  def wait(self) -> None:
    """Waits for its end; re-raises its exception or reports its failure."""

  def kill(self) -> None:
    """Stops it if possible; may be called from any thread."""


@runtime_checkable
class PlaysPrograms(ChecksSettings, Protocol):
  """Family whose tasks are played by programs that call the policy."""

  @property
  def branches(self) -> int:
    """Whole conversations that the branches of a trajectory may fill."""

  @property
  def calls(self) -> str:
    """Format of tool calls in messages."""

  def start(
    self, task: Mapping[str, Any], seed: int, address: str, key: str
  ) -> ProgramRun:
    """Makes a program for a task, without running it.

    Args:
      address: of its session; clients append /v1/...
      key: that clients authenticate with
    """

  def grade(
    self, task: Mapping[str, Any], messages: Sequence[Mapping[str, str]]
  ) -> float | None:
    """Scores a conversation in [0, 1]; None: the program posts it.

    Args:
      messages: of the last call and its answer, each with role and content
    """


@runtime_checkable
class MarksCalls(EnvFamily, Protocol):
  """Family whose messages call tools or use an action syntax of its own."""

  def spans(self, message: str) -> 'Sequence[Interval]':
    """Splits a message into parts, as `text.spans.mark` does.

    'call' and 'argument' mark exactly what its environments parse as such.
    """


@runtime_checkable
class DescribesTasks(EnvFamily, Protocol):
  """Family whose tasks are like each other as their descriptions are."""

  def describe(self, task: Mapping[str, Any]) -> str:
    """Returns what an agent sees of the task when it begins, no more."""


@runtime_checkable
class WritesSummaries(EnvFamily, Protocol):
  """Family whose demonstrations go on behind summaries of what was seen."""

  def summary(
    self, task: Mapping[str, Any], observations: Sequence[str]
  ) -> str:
    """Writes what its expert needs to go on.

    Args:
      observations: all that were seen so far, the first one too
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
  """Returns the names of the services that its environments query."""
  return family.needs if isinstance(family, NeedsServices) else ()


def sizes(family: EnvFamily) -> Mapping[str, int]:
  """Returns the tasks available by split; {} if unlimited."""
  return family.sizes() if isinstance(family, FiniteFamily) else {}


def spans(family: EnvFamily, message: str) -> 'Sequence[Interval]':
  """Splits a message; into thought and answer if the family marks nothing."""
  if isinstance(family, MarksCalls):
    return family.spans(message)
  from agentrl.text import spans as spans_lib  # as above

  return spans_lib.mark(message)


def with_services(
  family: EnvFamily, services: Mapping[str, Service]
) -> EnvFamily:
  """Returns the family with its services, ready to make environments.

  Raises:
    ValueError: a service that it needs is missing.
  """
  if not isinstance(family, NeedsServices):
    return family
  if lacking := [name for name in family.needs if name not in services]:
    raise ValueError(
      f'services of {type(family).__name__} must include all of'
      f' {family.needs}, got none called {lacking}'
    )
  return family.served(services)


def missing_services(family: NeedsServices) -> ValueError:
  """Returns the error for a family that was given no services."""
  return ValueError(
    f'environments of {type(family).__name__} need services {family.needs};'
    ' pass them with base.with_services(family, services)'
  )


def find(name: str) -> type:
  """Finds the family class of a name.

  Raises:
    ValueError: the name, module or class is unknown, or not an `EnvFamily`.
  """
  shipped = FAMILIES | JIT_FAMILIES
  path = shipped.get(name, name)
  if ':' not in path:
    from agentrl.domain import suggest  # imports numpy, which children lack

    raise ValueError(
      f'env.name={name!r} is unknown{suggest(name, shipped)}; choose'
      f" from {sorted(shipped)}, or name your own as 'module:Class'"
    )
  try:
    family = objects.load(path)
  except objects.MissingError as error:
    raise ValueError(f'env.name={error}') from error
  except Exception as error:  # whatever the user's module raises
    raise ValueError(
      f"env.name must be an importable 'module:Class', got {name!r} ({error})"
    ) from error
  if wrong := misfit(family):
    raise ValueError(f'env.name={name!r} must be an EnvFamily: {wrong}')
  return family


def misfit(family: Any) -> str:
  """Returns why a class is not an `EnvFamily`, else ''."""
  if not (isinstance(family, type) and dataclasses.is_dataclass(family)):
    return 'it must be a frozen dataclass of settings'
  fields = settings(family)
  has = {*fields, *dir(family)}
  members = [x for x in vars(EnvFamily) if not x.startswith('_')]
  if lacks := [x for x in members if x not in has]:
    return f'it must have {lacks}; see agentrl.env.base.EnvFamily'
  # A flag cannot set c.env.items, which is a method of every mapping.
  if taken := [x for x in fields if x in SET or x in dir(dict)]:
    return f'its fields {taken} are reserved by c.env; rename them'
  if bare := [x for x in fields if fields[x] is dataclasses.MISSING]:
    return f'its fields {bare} must have plain default values'
  return ''


def settings(family: type) -> dict[str, Any]:
  """Returns the settings of a family with their defaults, as in c.env."""
  return {f.name: f.default for f in dataclasses.fields(family)}


def of(env: Mapping[str, Any]) -> EnvFamily:
  """Builds the family of `c.env`; ValueError for a setting it lacks."""
  fields = {name: x for name, x in env.items() if name not in SET}
  family = find(env['name'])
  for name in sorted(fields.keys() - settings(family).keys()):
    raise ValueError(
      f'env.{name}={fields[name]!r:.40} is not a setting of'
      f' env.name={env["name"]!r}; choose the environment in the config'
      f' argument, as --config=NAME:env={env["name"]}'
    )
  return family(**fields)


def missing(package: str, extra: str) -> ValueError:
  """Returns the error for an environment whose package is missing."""
  return ValueError(
    f'this environment needs the package {package}; run'
    f' {install.command(extra)}'
  )
