"""Interview: find the number a user has chosen by asking questions.

The user is a service, by default a function that tells the truth. Texts are
short enough for a model whose tokens are characters:

  3 8 15 21
  below 15?
  yes
  below 8?
  no
  <answer>8</answer>
"""

import dataclasses
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from agentrl import domain
from agentrl.env import base, task_sampling, tool_env, user_frame
from agentrl.env.base import HostTask, Step
from agentrl.service.base import Service, ServiceFault
from agentrl.text.message import Message

RULES = (
  'The user has chosen one of the numbers. Ask questions that can be answered'
  ' by yes or no, such as "below 15?", and end with'
  f' {tool_env.answer_message("...")}.'
)
CHOSEN = (
  'You have chosen the number {secret}. Keep it secret, and answer every'
  ' question about it with yes or no.'
)
_CHOSEN = re.compile(r'You have chosen the number (\d+)\.')
_QUESTION = re.compile(
  r'(below|above|is it)? ?(\d{1,6})\s*\?', re.ASCII | re.IGNORECASE
)
_TURNED = {'yes': 'no', 'no': 'yes'}


@dataclasses.dataclass(frozen=True)
class Interview:
  """A task is an ascending list of numbers, one of them chosen."""

  numbers: Annotated[int, domain.Whole(2, most='largest')] = 8  # to choose from
  largest: Annotated[int, domain.Whole(2)] = 99  # number
  noise: Annotated[float, domain.Real(0, 0.5)] = (
    0.0  # chance that an answer is turned round on its way
  )
  teach: bool = False  # the system text states the rules

  columns: ClassVar[tuple[str, ...]] = ('asked', 'yes')
  worker: ClassVar[str] = 'thread'
  needs: ClassVar[tuple[str, ...]] = ('user',)

  def __post_init__(self):
    if not 2 <= self.numbers <= self.largest:
      raise ValueError(
        f'numbers must be from 2 to largest={self.largest}, got {self.numbers}'
      )
    if not 0 <= self.noise <= 0.5:
      raise ValueError(f'noise must be in [0, 0.5], got {self.noise}')

  @property
  def system(self) -> str:
    return RULES if self.teach else ''

  def name(self) -> str:
    return task_sampling.name('interview', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Yields tasks demonstrated by bisection; see `EnvFamily`."""
    return task_sampling.drawn(self._draw, _solve, split, count, seed)

  def describe(self, task: Mapping[str, Any]) -> str:
    return ' '.join(map(str, task['numbers']))

  def served(self, services: Mapping[str, Service]) -> base.EnvFamily:
    return base.WithServices(
      self, lambda: InterviewEnv(services['user'], self.noise)
    )

  def env(self) -> base.HostEnv:
    raise base.missing_services(self)

  def _draw(self, rng: np.random.Generator) -> list:
    """Draws the numbers and the chosen one."""
    some = 1 + rng.choice(self.largest, self.numbers, replace=False)
    return [sorted(some.tolist()), int(rng.choice(some))]


def _solve(made: list) -> tuple[dict[str, Any], tuple[str, ...]]:
  numbers, secret = made
  demo = (*halves(numbers, secret), tool_env.answer_message(str(secret)))
  return {'numbers': numbers, 'secret': secret}, demo


def halves(numbers: Sequence[int], secret: int) -> list[str]:
  """Bisects n numbers with at most ⌈log₂ n⌉ questions."""
  left, questions = sorted(numbers), []
  while len(left) > 1:
    middle = left[len(left) // 2]
    questions.append(f'below {middle}?')
    left = [n for n in left if (n < middle) == (secret < middle)]
  return questions


class InterviewEnv:
  """Passes every message but an answer to the user; see `HostEnv`."""

  def __init__(self, user: Service, noise: float):
    self._user, self._noise = user, noise

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    self._secret = task['secret']
    self._random = random.Random(seed)
    self._dialogue = user_frame.Dialogue(self._user, self._random)
    return ' '.join(map(str, task['numbers']))

  def step(self, message: str) -> Step:
    answer = tool_env.final(message)
    if answer is not None:
      score = float(answer == str(self._secret))
      return Step('', score, True, score, info={'asked': 0.0, 'yes': 0.0})
    text = self._dialogue.ask(CHOSEN.format(secret=self._secret), message)
    turned = self._random.random() < self._noise
    answer = user_frame.yes_or_no(text)
    if answer is None:  # no answer to the question
      return Step(text, invalid=True, info={'asked': 1.0, 'yes': 0.0})
    if turned:
      answer = text = _TURNED[answer]
    info = {'asked': 1.0, 'yes': float(answer == 'yes')}
    return Step(text, info=info)

  def close(self) -> None:
    pass


def truthful(messages: Sequence[Message], *, seed: int) -> str:
  """Answers truthfully as the user. It understands:

  below 15? / above 15? / 15? / is it 15?
  """
  del seed  # nothing is random
  chosen = _CHOSEN.search(messages[0].content)
  if not chosen:
    raise ServiceFault('the user must be told its number')
  question = _QUESTION.fullmatch(messages[-1].content.strip())
  if not question:
    return 'Ask yes or no.'
  secret, number = int(chosen[1]), int(question[2])
  match (question[1] or '').lower():
    case 'below':
      right = secret < number
    case 'above':
      right = secret > number
    case _:
      right = secret == number
  return 'yes' if right else 'no'
