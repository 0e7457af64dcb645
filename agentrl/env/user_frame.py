"""Frame of environments whose agent questions a user before it answers.

A message is a question about one topic, an act of the family's own, or the
answer that ends the task. The user is a service that is given its secret in a
system text; whether a question was needed is judged here, by what the agent
has been given, and not by the user.
"""

import random
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from agentrl.env import tool_env
from agentrl.env.base import Step
from agentrl.service.base import Service
from agentrl.text.message import AGENT, Message
from agentrl.text.tool_calls.base import spoken

# Of a turn, as floats. A question is needed if its topic is, and counts as such
# once a topic; one whose topic is not needed is needless, however often it
# comes. `refused`: the question got no answer. `patience`: answers left.
# `progress`: the change of the optimal value, of the score less all costs to
# come; at the end, of what the last turn earned.
COLUMNS = (
  'questions',
  'needed_questions',
  'needless_questions',
  'refused',
  'patience',
  'progress',
)
LOST = 'Ask one thing, or answer.'
SILENT = '...'
# What users do with a question when their patience is over: they end the task
# unsolved, or say `SILENT`.
IMPATIENT = ('leaves', 'silent')
_SENTENCE_END = re.compile(r'([.?!\n])')
_WORD = re.compile(r'\w+')
_YES_OR_NO = re.compile(r'\W*(yes|no)\b', re.IGNORECASE)


class Dialogue:
  """One conversation with a user, who hears what it said itself."""

  def __init__(self, user: Service, rng: random.Random):
    self._user, self._random = user, rng
    self._talk: list[Message] = []

  def ask(self, system: str, message: str) -> str:
    """Returns the user's reply.

    Args:
      system: what it knows and wants now, in place of what it was given before.
      message: of the agent.

    Raises:
      ServiceFault: it has no answer.
    """
    self._talk.append(Message('user', message))
    messages = (Message('system', system), *self._talk)
    text = self._user(messages, seed=self._random.getrandbits(31))
    self._talk.append(Message(AGENT, text))
    return text


class Manner(NamedTuple):
  """How a user bears questions."""

  patience: int  # questions that are answered, or refused
  impatient: str  # one of `IMPATIENT`
  cost: float  # of a question, off the reward


class OrderedAct(NamedTuple):
  """The result of an act that is neither question nor answer."""

  text: str
  reward: float
  info: Mapping[str, float]


class Ending(NamedTuple):
  """What an answer earns."""

  score: float  # in [0, 1]
  reward: float  # the score less what is charged at the end
  info: Mapping[str, float] = {}


class UserCase(Protocol):
  """A task that is under way, and what the agent has been given of it."""

  @property
  def text(self) -> str:
    """The first observation."""

  @property
  def topics(self) -> Collection[str]:
    """What can be asked for, each a lower-case word."""

  def value(self, patience: int) -> float:
    """Returns the optimal value from here on, with this much patience left."""

  def expert(self, patience: int) -> str:
    """Returns the next message of an optimal policy."""

  def needs(self, topic: str, patience: int) -> bool:
    """Tells whether a question about it is needed now; patience is above 0."""

  def prepare(self, topic: str) -> str:
    """Makes the user's system text for a question on the topic, once each."""

  def record(self, topic: str, reply: str) -> Mapping[str, float]:
    """Takes in the reply -> columns, `refused` among them."""

  def act(self, message: str) -> OrderedAct | None:
    """Performs what the message orders; None where it orders nothing."""

  def judge(self, answer: str) -> Ending:
    """Ends the task."""


class UserEnv:
  """The `HostEnv` of cases with a user; see `HostEnv`."""

  def __init__(
    self,
    user: Service,
    begin: Callable[[Mapping[str, Any]], UserCase],
    columns: Sequence[str],
    manner: Manner,
  ):
    """Stores the parts; columns: of the family; what is not counted is 0."""
    self._user, self._begin, self._manner = user, begin, manner
    self._nothing = dict.fromkeys(columns, 0.0)

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    self._case = self._begin(task)
    self._dialogue = Dialogue(self._user, random.Random(seed))
    self._patience = self._manner.patience
    self._paid: set[str] = set()  # topics whose question counted as needed
    return self._case.text

  def step(self, message: str) -> Step:
    before = self._case.value(self._patience)
    step = self._turn(message)
    after = step.reward if step.done else self._case.value(self._patience)
    info = {'patience': float(self._patience), 'progress': after - before}
    return step._replace(info={**self._nothing, **step.info, **info})

  def close(self) -> None:
    pass

  def expert(self) -> str:
    """Returns the next message of an optimal policy."""
    return self._case.expert(self._patience)

  def _turn(self, message: str) -> Step:
    answer = tool_env.final(message)
    if answer is not None:
      score, reward, info = self._case.judge(answer)
      return Step('', reward, True, score, info=info)
    message = spoken(message).strip()
    topic = find_topic(message, self._case.topics)
    if topic is not None:
      return self._question(topic, message)
    act = self._case.act(message)
    if act is not None:
      return Step(act.text, act.reward, info=act.info)
    return Step(LOST, invalid=True)

  def _question(self, topic: str, message: str) -> Step:
    info = {'questions': 1.0, **self._judged(topic)}
    if not self._patience:
      info['refused'] = 1.0
      if self._manner.impatient == 'leaves':
        return Step('', done=True, info=info)
      return Step(SILENT, -self._manner.cost, info=info)
    self._patience -= 1
    text = self._dialogue.ask(self._case.prepare(topic), message)
    info |= self._case.record(topic, text)
    return Step(text, -self._manner.cost, info=info)

  def _judged(self, topic: str) -> dict[str, float]:
    if not (self._patience and self._case.needs(topic, self._patience)):
      return {'needless_questions': 1.0}
    first = topic not in self._paid
    self._paid.add(topic)
    return {'needed_questions': float(first)}


def find_topic(message: str, topics: Collection[str]) -> str | None:
  """Finds the topic that a message's questions name; None if not just one.

  Understands 'colour?', 'ask colour?' and 'I see. Which COLOUR is it?'.
  """
  parts = _SENTENCE_END.split(message)
  ended = zip(parts[::2], parts[1::2], strict=False)
  questions = ' '.join(sentence for sentence, end in ended if end == '?')
  named = set(words(questions)) & set(topics)
  return named.pop() if len(named) == 1 else None


def words(text: str) -> list[str]:
  """Returns the words of a text in lower case, without punctuation."""
  return _WORD.findall(text.lower())


def yes_or_no(text: str) -> str | None:
  """Finds the 'yes' or 'no' that a reply begins with; None if neither."""
  match = _YES_OR_NO.match(text)
  return match[1].lower() if match else None


def demonstration(
  env: UserEnv, task: Mapping[str, Any], opening: Sequence[str] = ()
) -> tuple[str, ...]:
  """Lists the optimal policy's messages; () where they do not solve the task.

  What the user does must follow from the task alone, not from the seed.

  Args:
    opening: messages that come before the policy takes over
  """
  env.reset(task, 0)
  messages: list[str] = []
  while True:
    left = opening[len(messages) :]
    messages.append(left[0] if left else env.expert())
    step = env.step(messages[-1])
    if step.done:
      return tuple(messages) if step.score == 1 else ()
