"""Hidden slots: a request that leaves out what the agent has to ask for.

As in SpeakRL, a turn asks or acts, and a question pays only where a slot is
missing. The user may refuse, may change its mind about what it has said, and
loses patience. Texts are short enough for a model whose tokens are characters:

  colour red size ? day ?
  size?
  big
  day?
  fri, colour now blue
  <answer>blue big fri</answer>
"""

import dataclasses
import functools
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from agentrl import domain
from agentrl.env import base, task_sampling, tool_env, user_frame
from agentrl.env.base import HostTask
from agentrl.env.user_frame import UserEnv
from agentrl.service.base import Service, ServiceFault
from agentrl.text.message import Message

# No word is a value of two slots.
SLOTS = {
  'colour': ('red', 'blue', 'tan', 'pink', 'lime', 'grey'),
  'size': ('big', 'small', 'mid', 'tiny', 'huge', 'giant'),
  'day': ('mon', 'tue', 'wed', 'thu', 'fri', 'sat'),
  'city': ('oslo', 'rome', 'bonn', 'cork', 'kiel', 'lyon'),
  'meal': ('rice', 'soup', 'fish', 'cake', 'stew', 'eggs'),
  'hour': ('six', 'nine', 'ten', 'noon', 'dusk', 'dawn'),
}
RULES = (
  'The user wants something, given as slots and their values; ? is a slot that'
  ' is missing. Ask for missing ones, one at a time, such as "size?". The user'
  ' may change a value: the latest one holds. End with the values of all slots,'
  f' such as {tool_env.answer_message("red big")}.'
)
WANT = (
  'You want {wants}. Answer the question with the value that it asks for and'
  ' tell no other.'
)
REFUSE = 'This time do not answer, say that you cannot now.'
REVISE = 'You have changed your mind: say that {slot} is now {value}.'
_WANT = re.compile(r'You want ([^.]*)\.')
_REVISE = re.compile(r'say that (\w+) is now (\w+)\.')


@dataclasses.dataclass(frozen=True)
class HiddenSlots:
  """A task is what the user wants, what it leaves out, and its mood.

  The mood decides when it refuses and what it changes its mind about, so that
  the attempts of a group meet the same user. The split is by the request alone
  too: no request of the test split is one of train's in another mood.
  """

  kinds: Annotated[int, domain.Whole(2, len(SLOTS))] = (
    4  # slots that tasks are made of
  )
  slots: Annotated[int, domain.Whole(1, len(SLOTS), most='kinds')] = (
    3  # of a task, all of which the answer must give
  )
  options: Annotated[int, domain.Whole(2, 6)] = 4  # that a slot can have
  hidden: Annotated[int, domain.Whole(1, len(SLOTS), most='slots')] = (
    2  # slots at most that a request leaves out, and 1 at least
  )
  refusal: Annotated[float, domain.Real(0, 1, below=True)] = (
    0.1  # chance that a question is refused; it may be asked again
  )
  revision: domain.Chance = (
    0.1  # chance that a reply also changes a value given before
  )
  patience: domain.Count = 4  # questions before the user has enough
  impatient: Annotated[str, domain.OneOf(*user_frame.IMPATIENT)] = (
    'leaves'  # what the user does at one question more
  )
  question_cost: domain.NotNegative = 0.05  # of each, off the reward
  confirm: domain.Chance = (
    0.0  # that a demonstration first asks about a slot that is given, for each
  )
  teach: bool = False  # the system text states the rules

  columns: ClassVar[tuple[str, ...]] = (
    *user_frame.COLUMNS,
    'premature_acts',
    'revised',
    'learned',
    'slots_right',
  )
  worker: ClassVar[str] = 'thread'
  needs: ClassVar[tuple[str, ...]] = ('user',)

  def __post_init__(self):
    domain.check_fields(self)

  @property
  def system(self) -> str:
    return RULES if self.teach else ''

  def name(self) -> str:
    return task_sampling.name('hidden_slots', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Asks for what is missing until it is given; see `EnvFamily`.

    `confirm` makes demonstrations of one who asks too much.
    """
    return task_sampling.drawn(
      lambda rng: self._draw(rng, split), self._solve, split, count, seed
    )

  def describe(self, task: Mapping[str, Any]) -> str:
    return SlotRequest(self, task).text

  def served(self, services: Mapping[str, Service]) -> base.EnvFamily:
    return base.WithServices(self, lambda: self._env(services['user']))

  def env(self) -> base.HostEnv:
    raise base.missing_services(self)

  def expert_value(self, task: Mapping[str, Any]) -> float:
    """Returns a task's optimal value: its score less the cost of questions."""
    return SlotRequest(self, task).value(self.patience)

  def _env(self, user: Service) -> UserEnv:
    manner = user_frame.Manner(
      self.patience, self.impatient, self.question_cost
    )
    begin = functools.partial(SlotRequest, self)
    return UserEnv(user, begin, self.columns, manner)

  def _draw(self, rng: np.random.Generator, split: str) -> dict | None:
    names = rng.permutation(list(SLOTS)[: self.kinds])[: self.slots].tolist()
    wants = [[x, SLOTS[x][rng.integers(self.options)]] for x in names]
    some = 1 + int(rng.integers(self.hidden))
    hidden = sorted(rng.permutation(names)[:some].tolist())
    request = {'wants': wants, 'hidden': hidden}
    if task_sampling.split(request) != split:
      return None
    if not (self.refusal or self.revision):
      return request
    return {**request, 'mood': int(rng.integers(2**31))}

  def _solve(self, task: dict[str, Any]) -> tuple[dict, tuple[str, ...]]:
    task = {'mood': 0, **task}
    rng = np.random.default_rng(int(task_sampling.key(task), 16))
    given = [x for x, _ in task['wants'] if x not in task['hidden']]
    needless = [f'{x}?' for x in given if rng.random() < self.confirm]
    env = self._env(scripted)
    return task, user_frame.demonstration(env, task, needless)


class SlotRequest:
  """What the user wants now, and which of it the agent was given."""

  def __init__(self, family: HiddenSlots, task: Mapping[str, Any]):
    self._family = family
    self._wants = dict(task['wants'])
    self._hidden = frozenset(task['hidden'])
    self._given = set(self._wants) - self._hidden
    self._random = random.Random(task['mood'])
    self._revised = False  # in this turn
    slots = (
      f'{x} {"?" if x in self._hidden else value}'
      for x, value in self._wants.items()
    )
    self.text = ' '.join(slots)
    self.topics = tuple(self._wants)

  def value(self, patience: int) -> float:
    return self._optimal(len(self._missing()), patience)

  def expert(self, patience: int) -> str:
    missing = self._missing()
    n = len(missing)
    if missing and self._optimal(n, patience) > self._optimal(n, 0):
      return f'{missing[0]}?'
    guess = (
      value if x in self._given else SLOTS[x][0]
      for x, value in self._wants.items()
    )
    return tool_env.answer_message(' '.join(guess))

  def needs(self, topic: str, patience: int) -> bool:
    return topic not in self._given

  def prepare(self, topic: str) -> str:
    # Four numbers for every question, so that the next is met by the same mood.
    refuse, revise, which, new = (self._random.random() for _ in range(4))
    text = []
    if refuse < self._family.refusal:
      text.append(REFUSE)
    candidates = [x for x in self._wants if x in self._given - {topic}]
    self._revised = revise < self._family.revision and bool(candidates)
    if self._revised:
      slot = candidates[int(which * len(candidates))]
      values = SLOTS[slot][: self._family.options]
      others = [x for x in values if x != self._wants[slot]]
      self._wants[slot] = others[int(new * len(others))]
      self._given.discard(slot)  # until the user has said so
      text.append(REVISE.format(slot=slot, value=self._wants[slot]))
    wants = ', '.join(f'{x} {value}' for x, value in self._wants.items())
    return ' '.join([WANT.format(wants=wants), *text])

  def record(self, topic: str, reply: str) -> dict[str, float]:
    spoken = set(user_frame.words(reply))
    before = len(self._missing()) - self._revised
    self._given |= {x for x, value in self._wants.items() if value in spoken}
    after = len(self._missing())
    return {
      'refused': float(self._wants[topic] not in spoken),
      'revised': float(self._revised),
      'learned': (before - after) / len(self._hidden),
    }

  def act(self, message: str) -> None:
    """Performs nothing: only the answer is an act."""

  def judge(self, answer: str) -> user_frame.Ending:
    chosen = set(user_frame.words(answer))
    right = [
      chosen & set(SLOTS[x]) == {value} for x, value in self._wants.items()
    ]
    info = {
      'premature_acts': float(bool(self._missing())),
      'slots_right': sum(right) / len(right),
    }
    return user_frame.Ending(float(all(right)), float(all(right)), info)

  def _missing(self) -> list[str]:
    return [x for x in self._wants if x not in self._given]

  def _optimal(self, missing: int, patience: int) -> float:
    family = self._family
    return optimal_value(
      missing,
      patience,
      values=family.options,
      refusal=family.refusal,
      cost=family.question_cost,
    )


@functools.lru_cache(maxsize=4096)
def optimal_value(
  missing: int, patience: int, *, values: int, refusal: float, cost: float
) -> float:
  """Returns the optimal value with k missing slots and p questions left,

    V(k, p) = max{m⁻ᵏ, (1 - ρ) V(k - 1, p - 1) + ρ V(k, p - 1) - c},
    V(0, p) = 1,  V(k, 0) = m⁻ᵏ,

  of an agent that guesses (a slot has one of m values) or asks (refused with
  chance ρ, at cost c). Changes of mind are not in it: the user says them, so
  that they leave nothing missing. Exact for the scripted user.
  """
  guess = float(values) ** -missing
  if not (missing and patience):
    return guess
  after = functools.partial(
    optimal_value, values=values, refusal=refusal, cost=cost
  )
  asking = (1 - refusal) * after(missing - 1, patience - 1)
  asking += refusal * after(missing, patience - 1)
  return max(guess, asking - cost)


def scripted(messages: Sequence[Message], *, seed: int) -> str:
  """Returns the user that does as its system text says. It understands:

  size? / ask size? / Which size?
  """
  del seed  # nothing is random
  system = messages[0].content
  given = _WANT.search(system)
  if not given:
    raise ServiceFault('the user was not given what it wants')
  wants = dict(x.split(' ', 1) for x in given[1].split(', '))
  topic = user_frame.find_topic(messages[-1].content, wants)
  if topic is None:
    return 'Ask one thing.'
  reply = 'not now' if REFUSE in system else wants[topic]
  revised = _REVISE.search(system)
  return f'{reply}, {revised[1]} now {revised[2]}' if revised else reply
