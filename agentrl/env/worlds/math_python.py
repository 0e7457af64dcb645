"""Questions whose answer is a number, with Python in the sandbox.

  What is the remainder of 17^340 divided by 23?
  <python>print(pow(17, 340, 23))</python>
  <result>
  4
  </result>
  <answer>4</answer>

Questions come from templates or from a file of the user's.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from agentrl import domain
from agentrl.env import task_sampling, tool_env
from agentrl.env.base import HostTask
from agentrl.text import grading, spans
from agentrl.text.spans import Interval
from agentrl.text.tool_calls import FormatName, format_of
from agentrl.text.tool_calls.base import Call
from agentrl.tool.python import Python
from agentrl.tool.sandbox.sandbox import Sandbox, SandboxLimits

EXAMPLE = '{"question": "What is half of 7?", "answer": "3.5"}'
RULES = 'Solve the problem. Its answer is one number; give it exactly.'
_SMALL = 30  # a, b and c are in 2.._SMALL


class Template(NamedTuple):
  """Question template over a large number n and small numbers a, b, c."""

  question: str
  code: str  # prints the answer
  answer: Callable[..., int]  # of n, a, b, c by name; another way


TEMPLATES = (
  Template(
    'What is the sum of all primes below {n}?',
    'p = [k for k in range(2, {n}) if all(k % d for d in range(2, k))]\n'
    'print(sum(p))',
    lambda n, a, b, c: sum(primes(n)),
  ),
  Template(
    'What is the remainder of {a}^{n} divided by {b}?',
    'print(pow({a}, {n}, {b}))',
    lambda n, a, b, c: a**n % b,
  ),
  Template(
    'How many positive divisors does {n} have?',
    'print(sum({n} % d == 0 for d in range(1, {n} + 1)))',
    lambda n, a, b, c: divisors(n),
  ),
  Template(
    'How many integers from 1 to {n} are divisible by {a} or {b}?',
    'print(sum(k % {a} == 0 or k % {b} == 0 for k in range(1, {n} + 1)))',
    lambda n, a, b, c: n // a + n // b - n // math.lcm(a, b),
  ),
  Template(
    'What is the sum of the decimal digits of {a}^{n}?',
    'print(sum(map(int, str({a} ** {n}))))',
    lambda n, a, b, c: digits(a**n),
  ),
  Template(
    'Ann has {n} coins. Each day she gets {a} coins, and every {b} days she'
    ' pays {c}. How many has she after 100 days?',
    'coins = {n}\n'
    'for day in range(1, 101):\n'
    '  coins += {a} - {c} * (day % {b} == 0)\n'
    'print(coins)',
    lambda n, a, b, c: n + 100 * a - 100 // b * c,
  ),
)


def primes(n: int) -> list[int]:
  """Lists primes below n by the sieve of Eratosthenes."""
  is_prime = np.ones(n, bool)
  is_prime[:2] = False
  for k in range(2, math.isqrt(n) + 1):
    is_prime[k * k :: k] = False
  return np.flatnonzero(is_prime).tolist()


def divisors(n: int) -> int:
  """Counts divisors: Π (e + 1) over the prime exponents of n."""
  count, prime = 1, 2
  while n > 1:
    exponent = 0
    while n % prime == 0:
      n, exponent = n // prime, exponent + 1
    count, prime = count * (exponent + 1), prime + 1
  return count


def digits(n: int) -> int:
  """Sums the decimal digits."""
  total = 0
  while n:
    n, digit = divmod(n, 10)
    total += digit
  return total


@dataclasses.dataclass(frozen=True)
class MathPython:
  """A task is a question and its numeric answer."""

  path: domain.Place = (
    ''  # a file of questions, see EXAMPLE; '': made from templates
  )
  size: Annotated[int, domain.Whole(100, 5000)] = (
    1000  # the largest number in a question that is made
  )
  seconds: domain.Positive = 10.0  # a program may run
  format: FormatName = 'tagged'  # of calls

  columns: ClassVar[tuple[str, ...]] = tool_env.COLUMNS
  worker: ClassVar[str] = 'process'

  def __post_init__(self):
    if not 100 <= self.size <= 5000:
      raise ValueError(f'size must be from 100 to 5000, got {self.size}')
    if not self.seconds > 0:
      raise ValueError(f'seconds must be above 0, got {self.seconds}')
    format_of(self.format)

  @property
  def system(self) -> str:
    return tool_env.describe_tools(RULES, [_TOOL], self.format)

  def name(self) -> str:
    return task_sampling.name('math_python', self, self.path)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Yields tasks demonstrated by a program and its answer; see `EnvFamily`.

    Questions from a file have no demonstrations.
    """
    if not self.path:
      return task_sampling.drawn(self._draw, self._solve, split, count, seed)
    every = task_sampling.lines(self.path, _task, EXAMPLE)
    tasks = task_sampling.of_split(every, split)
    return task_sampling.chosen(tasks, split, count, seed, self.path)

  def spans(self, message: str) -> list[Interval]:
    calls = format_of(self.format).locate(message, [_TOOL])
    return spans.mark(message, calls)

  def describe(self, task: Mapping[str, Any]) -> str:
    return task['question']

  def env(self) -> tool_env.ToolEnv:
    try:
      tool = Python(Sandbox(SandboxLimits(seconds=self.seconds)))
    except RuntimeError as error:
      raise ValueError(str(error)) from error

    def begin(task: Mapping[str, Any], seed: int) -> tool_env.ToolTask:
      del seed  # nothing is random
      gold = grading.number(task['answer'])

      def judge(answer: str) -> tool_env.Grade:
        return tool_env.Grade(float(grading.number(answer) == gold))

      return tool_env.ToolTask(task['question'], [tool], judge)

    return tool_env.ToolEnv(begin, format_of(self.format), self.columns)

  def _draw(self, rng: np.random.Generator) -> dict[str, Any]:
    which = int(rng.integers(len(TEMPLATES)))
    a, b, c = rng.integers(2, _SMALL + 1, 3).tolist()
    n = int(rng.integers(self.size // 10, self.size + 1))
    question = TEMPLATES[which].question.format(n=n, a=a, b=b, c=c)
    # What the question does not name is no part of what the task is.
    used = {
      name: value
      for name, value in zip('nabc', (n, a, b, c), strict=True)
      if f'{{{name}}}' in TEMPLATES[which].question
    }
    return {'which': which, 'used': used, 'question': question}

  def _solve(self, made: dict[str, Any]) -> tuple[dict, tuple[str, ...]]:
    template = TEMPLATES[made['which']]
    numbers = dict.fromkeys('nabc', 2) | made['used']
    answer = str(template.answer(**numbers))
    call = Call(Python.name, {'code': template.code.format(**numbers)})
    demo = format_of(self.format).write([call]), tool_env.answer_message(answer)
    return {'question': made['question'], 'answer': answer}, demo


_ABOUT = 'Runs a Python program and returns what it prints.'
_TOOL = tool_env.ToolDescription(Python.name, _ABOUT, Python.schema)


def _task(line: Mapping[str, Any]) -> HostTask:
  question, answer = line['question'], str(line['answer'])
  if not isinstance(question, str) or grading.number(answer) is None:
    raise ValueError('the answer must be a number')
  task = {'question': question, 'answer': answer}
  return HostTask(task, (), task_sampling.key(grading.squad_words(question)))
