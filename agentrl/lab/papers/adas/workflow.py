"""Workflows: scaffolds around a fixed policy, written as JSON.

  {"steps": [{"do": "sample", "n": 4}, {"do": "keep", "n": 1},
             {"do": "repeat", "times": 6, "steps": [{"do": "revise", "n": 2},
                                                    {"do": "keep", "n": 1}]}],
   "answer": "closest"}

  sample  n calls of the policy, each a new attempt
  revise  n calls, each about an attempt that is there, in turns
  keep    the n "closest" to the target, or the n "newest"
  repeat  the steps, so many times

The answer is the attempt that is closest, newest, or of the most common value.
A workflow is data and runs no code. What is not in this form, or needs more
calls than a task has, is refused before any call.
"""

import json
import operator
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from agentrl.service.base import Service
from agentrl.text.message import Message

CALLS = 24  # of a task, at most
BY, ANSWERS = ('closest', 'newest'), ('closest', 'newest', 'common')
_LONGEST, _DEPTH = 2000, 4  # characters, and repeats in repeats
_EXPRESSION = re.compile(r'\d{1,9}([-+*]\d{1,9})*')
_APPLY = {'+': operator.add, '-': operator.sub, '*': operator.mul}


class Task(NamedTuple):
  """Numbers that are used once each, and what they should make."""

  numbers: tuple[int, ...]
  target: int


class Attempt(NamedTuple):
  """What the policy said, and what it makes; None: it is not in form."""

  text: str
  value: int | None


def parsed(text: str) -> tuple[dict[str, Any], str]:
  """Reads a workflow: -> it, and why it is refused, '' if it is not."""
  try:
    made = json.loads(text) if len(text) <= _LONGEST else None
  except (ValueError, RecursionError):
    made = None
  if not isinstance(made, dict) or set(made) != {'steps', 'answer'}:
    return {}, f'must be JSON of steps and answer, {_LONGEST} characters long'
  if made['answer'] not in ANSWERS:
    return {}, f'answer must be one of {ANSWERS}'
  wrong = _wrong(made['steps'], 0)
  if wrong:
    return {}, wrong
  need = calls(made['steps'])
  if not 1 <= need <= CALLS:
    return {}, f'calls must be from 1 to {CALLS}, got {need}'
  if not _begins(made['steps']):
    return {}, 'the first call must be a sample'
  return made, ''


def _wrong(steps: Any, depth: int) -> str:
  """Says what is wrong with steps; '' if nothing is."""
  if not isinstance(steps, list) or not steps or depth > _DEPTH:
    return f'steps must be a list of 1 or more, {_DEPTH} repeats deep at most'
  wrong: Any
  for step in steps:
    match step:
      case {'do': 'sample' | 'revise', 'n': n, **rest} if _count(n):
        wrong = rest
      case {'do': 'keep', 'n': n, **rest} if _count(n):
        wrong = rest.pop('by', BY[0]) not in BY or rest
      case {'do': 'repeat', 'times': n, 'steps': inner, **rest} if _count(n):
        wrong = rest or _wrong(inner, depth + 1)
      case _:
        wrong = True
    if wrong:
      return wrong if isinstance(wrong, str) else f'not a step: {step!r:.80}'
  return ''


def _count(n: Any) -> bool:
  return type(n) is int and 1 <= n <= CALLS


def calls(steps: Sequence[dict[str, Any]]) -> int:
  """Counts the calls of steps that are in form."""
  return sum(
    x['times'] * calls(x['steps']) if x['do'] == 'repeat'
    else x['n'] * (x['do'] != 'keep')
    for x in steps
  )  # fmt: skip


def _begins(steps: Sequence[dict[str, Any]]) -> bool:
  """Tells if the first call is a sample, so that there is what to revise."""
  for x in steps:
    if x['do'] in ('sample', 'revise'):
      return x['do'] == 'sample'
    if x['do'] == 'repeat' and calls(x['steps']):
      return _begins(x['steps'])
  return False


def value_of(text: str, task: Task) -> int | None:
  """Evaluates 3+4*2 from left to right, 14, as a pocket calculator does.

  None: it is not in form, or does not use each number once.
  """
  form = _EXPRESSION.fullmatch(text) if len(text) <= _LONGEST else None
  signs, *numbers = (re.findall('[-+*]', text), *re.findall(r'\d+', text))
  if form is None or sorted(map(int, numbers)) != sorted(task.numbers):
    return None
  value = int(numbers[0])
  for sign, x in zip(signs, numbers[1:], strict=True):
    value = _APPLY[sign](value, int(x))
  return value


def play(
  workflow: dict[str, Any], task: Task, policy: Service, seed: int
) -> tuple[bool, int]:
  """Plays a workflow at a task: -> solved, and calls.

  Args:
    workflow: of `parsed`
    seed: of the first call; the next have the next
  """
  pool, count = list[Attempt](), 0

  def ask(text: str) -> Attempt:
    nonlocal count
    said = policy([Message('user', text)], seed=(seed + count) % 2**31)
    count += 1
    return Attempt(said, value_of(said.strip(), task))

  def far(x: Attempt) -> float:
    return float('inf') if x.value is None else abs(x.value - task.target)

  def run(steps: Sequence[dict[str, Any]]) -> None:
    for x in steps:
      if x['do'] == 'sample':
        pool.extend(ask(question(task)) for _ in range(x['n']))
      elif x['do'] == 'revise':
        before = list(pool)
        pool.extend(
          ask(question(task, before[i % len(before)])) for i in range(x['n'])
        )
      elif x['do'] == 'keep':
        newest = x.get('by') == 'newest'
        pool[:] = pool[-x['n'] :] if newest else sorted(pool, key=far)[: x['n']]
      else:
        for _ in range(x['times']):
          run(x['steps'])

  run(workflow['steps'])
  if workflow['answer'] == 'closest':
    answer = min(pool, key=far)
  elif workflow['answer'] == 'newest':
    answer = pool[-1]
  else:
    common = Counter(x.value for x in pool if x.value is not None)
    most = common.most_common(1)
    answer = next((x for x in pool if most and x.value == most[0][0]), pool[-1])
  return answer.value == task.target, count


def question(task: Task, attempt: Attempt | None = None) -> str:
  """Writes what the policy is asked: a task, and an attempt to revise."""
  lines = [f'Make {task.target} of {" ".join(map(str, task.numbers))}.']
  if attempt is not None:
    made = 'nothing' if attempt.value is None else attempt.value
    lines.append(f'Revise: {attempt.text} makes {made}.')
  return '\n'.join(lines)
