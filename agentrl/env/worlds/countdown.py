"""Countdown: reach a target from a few numbers, each used at most once.

As in TinyZero and the paper on habits that make self-improvement possible
(arXiv 2503.01307), with a calculator to try expressions on. Texts are short
enough for a model whose tokens are characters:

  24: 2 3 4
  <calculator>2*3*4</calculator>
  <result>
  24
  </result>
  <answer>2*3*4</answer>

That is the form `call`; demonstrations of the form `direct` are the answer
alone, those of the form `steps` the operations one by one before it:

  <think>2*3=6 6*4=24</think><answer>2*3*4</answer>
"""

import ast
import dataclasses
import functools
import itertools
import operator
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from agentrl import domain
from agentrl.env import task_sampling, tool_env
from agentrl.env.base import HostEnv, HostTask, Step
from agentrl.text import grading, spans
from agentrl.text import safe_ast as written
from agentrl.text.spans import Interval
from agentrl.text.tool_calls import FormatName, format_of
from agentrl.text.tool_calls.base import Call, spoken
from agentrl.tool.base import ToolError
from agentrl.tool.calculator import Calculator, evaluate

_APPLY = {
  '+': operator.add,
  '-': operator.sub,
  '*': operator.mul,
  '/': operator.truediv,
}
_NODES = {'+': ast.Add, '-': ast.Sub, '*': ast.Mult, '/': ast.Div}
_SPELLED = str.maketrans(
  {
    '+': ' plus ',
    '-': ' minus ',
    '*': ' times ',
    '/': ' over ',
    '(': ' open ',
    ')': ' close ',
  }
)
_READ = re.compile(r'[-+*/() 0-9]{1,200}')
FORMS = ('call', 'direct', 'steps')
COLUMNS = (
  *tool_env.COLUMNS,
  'format',
  'similarity',
  *(f'form_{x}' for x in FORMS),
)
RULES = (
  'Given "target: numbers", write an expression that equals the target. It uses'
  ' each number at most once, and nothing but {operations} and parentheses.'
)


@dataclasses.dataclass(frozen=True)
class Countdown:
  """A task is a target and its numbers, in their order.

  It can be solved, and only with all the numbers.
  """

  numbers: Annotated[int, domain.Whole(2, 5)] = 3  # of a task
  largest: Annotated[int, domain.Whole(2)] = 9  # number
  most: domain.Count = 99  # the target can be
  operations: str = '+-*'  # of +-*/
  demonstrate: Annotated[str, domain.OneOf(*FORMS, 'every')] = (
    'call'  # form of demonstrations; 'every': one of them, by the task
  )
  format: FormatName = 'tagged'  # of calls
  teach: bool = False  # the system text states the rules

  columns: ClassVar[tuple[str, ...]] = COLUMNS
  worker: ClassVar[str] = 'thread'

  def __post_init__(self):
    if not 2 <= self.numbers <= 5:
      raise ValueError(f'numbers={self.numbers} is not in 2..5; use 3 or 4')
    if self.largest < 2 or self.most < 1:
      raise ValueError(
        f'largest={self.largest} and most={self.most} leave no task; use at'
        ' least 2 and 1, say 9 and 99'
      )
    if not self.operations or Counter(self.operations) - Counter('+-*/'):
      raise ValueError(
        f"operations={self.operations!r} must be some of '+-*/', each once"
      )
    format_of(self.format)

  @property
  def system(self) -> str:
    if not self.teach:
      return ''
    rules = RULES.format(operations=' '.join(self.operations))
    return tool_env.describe_tools(rules, [Calculator()], self.format)

  def name(self) -> str:
    return task_sampling.name('countdown', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Tries the shortest solution, then answers with it; see `EnvFamily`."""
    return task_sampling.drawn(self._draw, self._solve, split, count, seed)

  def describe(self, task: Mapping[str, Any]) -> str:
    return self.env().reset(task, 0)

  def spans(self, message: str) -> list[Interval]:
    calls = format_of(self.format).locate(message, [Calculator()])
    return spans.mark(message, calls)

  def env(self) -> HostEnv:
    return CountdownEnv(
      tool_env.ToolEnv(self._begin, format_of(self.format), self.columns)
    )

  def _draw(self, rng: np.random.Generator) -> list | None:
    """Returns the target and the sorted numbers."""
    numbers = rng.integers(1, self.largest + 1, self.numbers).tolist()
    values = sorted(
      int(x)
      for x in reachable(numbers, self.operations)
      if x.denominator == 1 and x <= self.most
    )
    return [int(rng.choice(values)), sorted(numbers)] if values else None

  def _solve(self, made: list) -> tuple[dict[str, Any], tuple[str, ...]]:
    target, numbers = made
    solution = reachable(numbers, self.operations)[Fraction(target)]
    form, answer = self.demonstrate, tool_env.answer_message(solution)
    if form == 'every':
      form = FORMS[int(task_sampling.key(made), 16) % len(FORMS)]
    demo = {
      'call': (
        format_of(self.format).write(
          [Call(Calculator.name, {'expression': solution})]
        ),
        answer,
      ),
      'direct': (answer,),
      'steps': (f'<think>{steps(solution)}</think>{answer}',),
    }
    return {'target': target, 'numbers': numbers}, demo[form]

  def _begin(self, task: Mapping[str, Any], seed: int) -> tool_env.ToolTask:
    del seed  # nothing is random
    text = f'{task["target"]}: {" ".join(map(str, task["numbers"]))}'

    def judge(answer: str) -> tool_env.Grade:
      value = worth(answer, task['numbers'], self.operations)
      info = {'format': float(value is not None)}
      if value is not None:
        made = tuple(task['numbers']), task['target'], self.operations
        info['similarity'] = similarity(answer, references(*made))
      return tool_env.Grade(float(value == task['target']), info)

    return tool_env.ToolTask(text, [Calculator()], judge)


class CountdownEnv:
  """`ToolEnv` that says in which form an answer was reached; see `HostEnv`.

  In the turn that answers one of `form_...` is 1: `call` where the calculator
  was called before it, else `steps` where the message has a thought in it.
  """

  def __init__(self, env: tool_env.ToolEnv):
    self._env, self._called = env, False

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    self._called = False
    return self._env.reset(task, seed)

  def step(self, message: str) -> Step:
    step = self._env.step(message)
    if step.done:
      thought = message.partition('</think>')[0].strip().removeprefix('<think>')
      plain = 'steps' if spoken(message) != message and thought else 'direct'
      form = 'call' if self._called else plain
      return step._replace(info={**step.info, f'form_{form}': 1.0})
    self._called |= step.info['calls'] > step.info['faults']
    return step

  def close(self) -> None:
    self._env.close()


def steps(expression: str) -> str:
  """Lists the operations of an expression one by one: '2*3=6 6*4=24'."""
  out: list[str] = []

  def value(node: ast.expr) -> Fraction:
    if not isinstance(node, ast.BinOp):
      return Fraction(evaluate(ast.unparse(node)))
    sign = next(x for x, kind in _NODES.items() if isinstance(node.op, kind))
    a, b = value(node.left), value(node.right)
    out.append(f'{a}{sign}{b}={_APPLY[sign](a, b)}')
    return _APPLY[sign](a, b)

  value(ast.parse(expression, mode='eval').body)
  return ' '.join(out)


def similarity(expression: str, references: Iterable[str]) -> float:
  """Measures similarity to the nearest of several references, by their symbols:

    R(y) = max_j ROUGE-L(y, y*_j)

  Symbols are numbers, signs and parentheses, the needed ones alone. 1 for what
  is a reference.
  """
  tree = ast.parse(expression.strip(), mode='eval').body
  mine = _written(tree).text.translate(_SPELLED)
  nearest = (grading.rouge_l(mine, x.translate(_SPELLED)) for x in references)
  return max(nearest, default=0.0)


@functools.lru_cache(maxsize=4096)
def references(
  numbers: tuple[int, ...], target: int, operations: str
) -> tuple[str, ...]:
  """Returns all expressions that take all the numbers and reach the target."""
  made: dict[int, set[tuple[Fraction, _Term]]] = {
    1 << i: {(Fraction(n), _Term(str(n), 3))} for i, n in enumerate(numbers)
  }
  whole = (1 << len(numbers)) - 1
  for part in range(1, whole + 1):
    for left in (x for x in range(1, part) if x & part == x):
      pairs = itertools.product(made[left], made[part ^ left])
      for ((a, x), (b, y)), sign in itertools.product(pairs, operations):
        if sign != '/' or b:
          value = _APPLY[sign](a, b), _joined_text(x, sign, y)
          made.setdefault(part, set()).add(value)
  return tuple(sorted({x.text for value, x in made[whole] if value == target}))


def _written(node: ast.AST) -> '_Term':
  """Renders an expression with the parentheses that it needs."""
  if not isinstance(node, ast.BinOp):
    return _Term(ast.unparse(node), 3)
  sign = next(x for x, kind in _NODES.items() if isinstance(node.op, kind))
  return _joined_text(_written(node.left), sign, _written(node.right))


def worth(
  expression: str, numbers: Sequence[int], operations: str
) -> Fraction | None:
  """Returns the exact value; None for what the rules do not allow.

  They allow each of the numbers at most once, operations and parentheses.
  """
  if not _READ.fullmatch(expression):
    return None
  try:
    nodes = list(ast.walk(written.tree(expression.strip())))
    allowed = {ast.BinOp, ast.Constant, *(_NODES[x] for x in operations)}
    used = Counter(x.value for x in nodes if isinstance(x, ast.Constant))
    if used - Counter(numbers) or not allowed.issuperset(map(type, nodes)):
      return None
    return Fraction(evaluate(expression))
  except (SyntaxError, RecursionError, MemoryError, ValueError, ToolError):
    return None


class _Term(NamedTuple):
  """An expression; sums bind weaker than products, those than numbers."""

  text: str
  binds: int  # 1 sum, 2 product, 3 number

  def within(self, least: int) -> str:
    return self.text if self.binds >= least else f'({self.text})'


def _joined_text(x: _Term, sign: str, y: _Term) -> _Term:
  """Renders x sign y with the parentheses that its terms need."""
  level = 1 if sign in '+-' else 2
  right = y.within(level + (sign in '-/'))
  return _Term(f'{x.within(level)}{sign}{right}', level)


def reachable(numbers: Sequence[int], operations: str) -> dict[Fraction, str]:
  """Maps positive values that take all numbers to their shortest expressions.

    R({n}) = {n};  R(S) = {a ∘ b > 0 : a ∈ R(A), b ∈ R(S \\ A), ∅ ≠ A ⊂ S}

  less all values of smaller sets. Nothing is lost with values of 0 or below: a
  sign can be moved outwards, and 0 only wastes numbers.
  """
  whole = (1 << len(numbers)) - 1
  terms: dict[int, dict[Fraction, _Term]] = {
    1 << i: {Fraction(n): _Term(str(n), 3)} for i, n in enumerate(numbers)
  }
  for part in range(1, whole + 1):
    if part not in terms:
      terms[part] = _joined(part, terms, operations)
  fewer = set().union(*(terms[part] for part in range(1, whole)))
  return {
    value: term.text
    for value, term in terms[whole].items()
    if value not in fewer
  }


def _joined(
  part: int, terms: dict[int, dict[Fraction, _Term]], operations: str
) -> dict[Fraction, _Term]:
  """Combines values of two disjoint parts, with their shortest terms."""
  best: dict[Fraction, _Term] = {}
  for left in (x for x in range(1, part) if x & part == x):
    pairs = itertools.product(terms[left].items(), terms[part ^ left].items())
    for ((a, x), (b, y)), sign in itertools.product(pairs, operations):
      value = _APPLY[sign](a, b)
      if value <= 0:
        continue
      term = _joined_text(x, sign, y)
      if value not in best or _rank(term) < _rank(best[value]):
        best[value] = term
  return best


def _rank(term: _Term) -> tuple[int, str]:
  return len(term.text), term.text
