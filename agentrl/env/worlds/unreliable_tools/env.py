"""Questions with several tools for one operation, at different terms.

Which tool is worth its price and time, and whether an answer is to be checked
by another, is what the agent has to learn:

  17*23-5
  <cheap>17*23-5</cheap>
  <result>
  389
  </result>
  <exact>17*23-5</exact>
  <result>
  386
  </result>
  <answer>386</answer><confidence>1</confidence>

A tool costs money and seconds, which are stated and never waited for; it may
fail, or give a wrong answer as confidently as a right one. Chance is as
agentrl/tool/unreliable.py says: the same words get the same wrong answer
again, other words for the same number may not.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Annotated, Any, ClassVar

import numpy as np

from agentrl import domain
from agentrl.env import task_sampling, tool_env
from agentrl.env.base import HostTask, Step
from agentrl.env.worlds.unreliable_tools import demonstrations, questions
from agentrl.env.worlds.unreliable_tools import value as expert
from agentrl.env.worlds.unreliable_tools.questions import KINDS
from agentrl.text import confidence as stated
from agentrl.text import grading, spans
from agentrl.text.spans import Interval
from agentrl.text.tool_calls import FormatName, format_of
from agentrl.text.tool_calls.base import Call
from agentrl.tool import unreliable
from agentrl.tool.calculator import Number
from agentrl.tool.unreliable import Offer, UnreliableTool, Use

COLUMNS = (
  *tool_env.COLUMNS,
  'price',
  'seconds',
  'deceived',
  'failed_calls',
  'confidence',
  'verified',
  'progress',
  'easy',
  'needless_calls',
  'unaided',
)
RULES = (
  'Give the number that the question asks for. The tools compute it at'
  ' different prices and durations; some fail, some are wrong.'
)


@dataclasses.dataclass(frozen=True)
class UnreliableTools:
  """A task is a question, its number, and the terms of the tools.

  The score is 1 for the number. Prices and seconds are columns; they cost
  nothing of the reward until c.reward makes them.
  """

  base: Annotated[str, domain.OneOf('countdown', 'table')] = (
    'countdown'  # values of expressions, or of columns that only tools see
  )
  size: Annotated[int, domain.Whole(2, 5)] = 3  # numbers of one, rows of other
  largest: Annotated[int, domain.Whole(2, 999)] = 30  # number
  tools: str = (
    'exact 1 8 0 0, cheap .1 1 0 .3, flaky .7 1 .4 0'  # name, price, seconds,
    # share of calls that fail, share of answers that are wrong; comma
  )
  spread: domain.Rate = 0.0  # by which terms differ between tasks; then shown
  price_weight: domain.NotNegative = 0.1  # of money in the expert's value
  seconds_weight: domain.NotNegative = 0.01  # of time in the expert's value
  small: Annotated[int, domain.Whole(2, 999, also=(0,))] = (
    0  # largest number of half of the questions, the easy ones; 0: of none
  )
  demonstrate: demonstrations.Way = 'sure'  # tools, see demonstrations.py
  confidence: bool = False  # demonstrations and rules give a confidence
  format: FormatName = 'tagged'  # of calls
  teach: bool = False  # the system text states the rules

  worker: ClassVar[str] = 'thread'

  def __post_init__(self):
    domain.check_fields(self)
    unreliable.offers(self.tools)
    if self.small and self.base != 'countdown':
      raise ValueError(
        f'small={self.small} is of numbers that base={self.base!r} hides; set'
        ' it to 0'
      )

  @property
  def columns(self) -> tuple[str, ...]:
    """Of a turn; progress = V(after) − V(before) − what the turn cost."""
    return (*COLUMNS, *(f'calls_{x.name}' for x in self._offers))

  @property
  def system(self) -> str:
    if not self.teach:
      return ''
    text = tool_env.describe_tools(RULES, self._descriptions, self.format)
    return f'{text} {stated.RULE}' if self.confidence else text

  def spans(self, message: str) -> list[Interval]:
    calls = format_of(self.format).locate(message, self._descriptions)
    return spans.mark(message, calls)

  @property
  def _descriptions(self) -> list[Any]:
    return [
      tool_env.ToolDescription(x.name, self._about(x), UnreliableTool.schema)
      for x in self._offers
    ]

  def name(self) -> str:
    return task_sampling.name('unreliable_tools', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Queries a tool that has no faults, then answers; see `EnvFamily`.

    Where no tool is without faults, tasks have no demonstrations.
    """
    return task_sampling.drawn(self._draw, self._solve, split, count, seed)

  def describe(self, task: Mapping[str, Any]) -> str:
    return self.env().reset(task, 0)

  def env(self) -> 'UnreliableToolsEnv':
    return UnreliableToolsEnv(self)

  def expert_value(self, task: Mapping[str, Any]) -> float:
    """Returns the expected score less the weighted costs of the best policy.

    Best of those that `value` in this folder states: the number is taken from
    tools alone, from at most `expert.ANSWERS` of their answers.
    """
    return expert.value(self.terms(task), ())

  def terms(self, task: Mapping[str, Any]) -> expert.Terms:
    """Returns the tools of a task as the expert sees them."""
    offers = [Offer(*x) for x in task['tools']]
    return expert.weigh(offers, self.price_weight, self.seconds_weight)

  def cost(self, info: Mapping[str, float]) -> float:
    """Returns the weighted costs of a turn."""
    return expert.cost(
      info['price'], info['seconds'], self.price_weight, self.seconds_weight
    )

  @property
  def _offers(self) -> tuple[Offer, ...]:
    return unreliable.offers(self.tools)

  def _about(self, offer: Offer) -> str:
    about = KINDS[self.base].description
    return about if self.spread else f'{about} {unreliable.shown(offer)}.'

  def _draw(self, rng: np.random.Generator) -> dict[str, Any] | None:
    easy = self.small and rng.random() < 0.5
    most = self.small if easy else self.largest
    return KINDS[self.base].draw(rng, self.size, most)

  def _solve(self, made: dict[str, Any]) -> tuple[dict, tuple[str, ...]]:
    # By the question alone: in one split it has the same terms everywhere.
    rng = np.random.default_rng(int(task_sampling.key(made), 16))
    offers = [_varied(x, rng, self.spread) for x in self._offers]
    number = KINDS[self.base].evaluate(made)(made['question'])
    task = made | {'answer': str(number), 'tools': [list(x) for x in offers]}
    return task, self._demonstration(task, rng)

  def _demonstration(
    self, task: Mapping[str, Any], rng: np.random.Generator
  ) -> tuple[str, ...]:
    names = demonstrations.tools(
      task['tools'], self.terms(task).costs, self.demonstrate, rng
    )
    if names is None:
      return ()
    easy, thought = questions.easy(task['question'], self.small), ''
    if self.demonstrate == 'needed':
      names, thought = (() if easy else names), demonstrations.reason(easy)
    write, call = format_of(self.format).write, {'text': task['question']}
    calls = [write([Call(name, call)]) for name in names]
    end = tool_env.answer_message(task['answer'])
    first, *rest = *calls, end + stated.write(1) if self.confidence else end
    return thought + first, *rest


class UnreliableToolsEnv:
  """A `ToolEnv` whose calls are charged and held against the truth."""

  def __init__(self, family: UnreliableTools):
    self._family = family
    self._before = 0.0  # the expert's value
    self._env = tool_env.ToolEnv(
      self._begin, format_of(family.format), family.columns
    )

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    return self._env.reset(task, seed)

  def step(self, message: str) -> Step:
    self._uses.clear()
    reply = self._env.step(message)
    info = {**reply.info, **self._charged()}
    info['needless_calls'] = self._easy * info['calls']
    self._aided |= any(use.answer is not None for use in self._uses)
    after = self._value()
    if reply.done:
      after = reply.score
      info['confidence'] = stated.read(message)
      answer = grading.number(tool_env.final(message) or '')
      info['verified'] = float(answer in self._sure)
      info |= {'easy': self._easy, 'unaided': float(not self._aided)}
    info['progress'] = after - self._before - self._family.cost(info)
    self._before = after
    self._turn += 1
    return reply._replace(info=info)

  def close(self) -> None:
    self._env.close()

  def _begin(self, task: Mapping[str, Any], seed: int) -> tool_env.ToolTask:
    offers, kind = [Offer(*x) for x in task['tools']], KINDS[self._family.base]
    self._offers = {x.name: x for x in offers}
    self._terms = self._family.terms(task)
    self._gold = Fraction(task['answer'])
    self._easy = float(questions.easy(task['question'], self._family.small))
    self._turn, self._uses, self._aided = 0, list[Use](), False
    # Answers to the question, and numbers that tools without errors gave.
    self._answers: dict[tuple[int, str], Number] = {}
    self._sure: set[Number] = set()
    self._before = self._value()
    tools: list[Any] = [
      UnreliableTool(
        offer,
        kind.description,
        kind.evaluate(task),
        seed,
        lambda: self._turn,
        self._uses.append,
      )
      for offer in offers
    ]

    def judge(answer: str) -> tool_env.Grade:
      return tool_env.Grade(float(grading.number(answer) == self._gold))

    text = task['question']
    if self._family.spread:
      menu = [f'{x.name} {unreliable.shown(x)}' for x in offers]
      text = '\n'.join([text, *menu])
    return tool_env.ToolTask(text, tools, judge)

  def _charged(self) -> dict[str, float]:
    """Returns columns of this turn's calls, which are paid for one by one."""
    count = Counter(use.tool for use in self._uses)
    places = list(self._offers)
    for use in self._uses:
      if use.answer is not None and not self._offers[use.tool].errors:
        self._sure.add(use.answer)
      if use.answer is not None and use.right == self._gold:
        key = places.index(use.tool), use.wording
        self._answers[key] = use.answer
    paid = [(self._offers[name], n) for name, n in count.items()]
    return {
      'price': math.fsum(x.price * n for x, n in paid),
      'seconds': math.fsum(x.seconds * n for x, n in paid),
      'deceived': float(sum(use.wrong for use in self._uses)),
      'failed_calls': float(sum(use.failed for use in self._uses)),
      **{f'calls_{name}': float(count[name]) for name in places},
    }

  def _value(self) -> float:
    return expert.value(self._terms, expert.votes(self._answers))


def _varied(offer: Offer, rng: np.random.Generator, spread: float) -> Offer:
  """Draws terms within ± spread of the offer's, two digits long."""
  if not spread:
    return offer
  factors = 1 + spread * rng.uniform(-1, 1, 4)
  terms = [
    float(f'{x * f:.2g}') for x, f in zip(offer[1:], factors, strict=True)
  ]
  price, seconds, failures, errors = terms
  return Offer(
    offer.name, price, seconds, min(failures, 0.99), min(errors, 1.0)
  )
