"""A solver and a writer of tools, both scripted.

The solver tries chains until one makes of the input that is shown what is
shown: tools alone, then a tool with a step before or after it by turns with
chains of steps, the short ones first. A call is one chain. The writer is a
service; a language model at an address can stand in its place.
"""

import functools
import itertools
import json
import random
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agentrl.lab.papers.tool_creation import world
from agentrl.lab.papers.tool_creation.programs import Table
from agentrl.lab.papers.tool_creation.world import Chain, Step, Task, Value
from agentrl.text.message import Message

LONGEST = 4  # steps of a chain without tools
SLIPS = 0.25  # share of tools with a mistake
WRITE = (
  'Each line has an attempt that was right: input, output and steps, of which'
  ' some are tools with an argument. Answer with one program that defines'
  ' tool(x, k), which does the same for other inputs, and nothing else.'
)
MERGE = (
  'Each line has the source of a tool. Answer with one tool(x, k) that does'
  ' what several of them do, by its argument k, or with nothing if none does.'
)
_STEP = re.compile(r'^  # (\w+)(?: (\w))?$', re.MULTILINE)


class Used(NamedTuple):
  """A tool in a chain: its place in the library, and its argument."""

  tool: int
  k: int


class Attempt(NamedTuple):
  """What the solver came to; no steps: it found nothing."""

  steps: tuple[Step | Used, ...]
  answer: Value | None
  calls: int


def solve(
  task: Task, tables: Sequence[Table], calls: int, seed: int
) -> Attempt:
  """Solves a task with tools, of which tables say what they return."""
  count = 0
  for chain in itertools.islice(_chains(task.of, tables, seed), calls):
    count += 1
    if _made(task.of, chain, tables, task.shown.input) == task.shown.output:
      answer = _made(task.of, chain, tables, task.asked.input)
      return Attempt(chain, answer, count)
  return Attempt((), None, count)


def _made(
  of: str,
  chain: Sequence[Step | Used],
  tables: Sequence[Table],
  x: Value | None,
) -> Value | None:
  for step in chain:
    if x is None:
      return None
    if isinstance(step, Used):
      x = tables[step.tool].made[step.k - 1].get(world.key(x))
    else:
      x = world.apply(of, [step], x)
  return x


def _chains(
  of: str, tables: Sequence[Table], seed: int
) -> Iterator[tuple[Step | Used, ...]]:
  """Draws chains in the solver's order."""
  rng = random.Random(seed)
  tools = [
    Used(i, k) for i, x in enumerate(tables) for k in range(1, len(x.made) + 1)
  ]
  rng.shuffle(tools)
  yield from ((x,) for x in tools)
  with_step: list[tuple[Step | Used, ...]] = []
  for tool, step in itertools.product(tools, world.singles(of)):
    if of == world.STRING:
      with_step.append((tool, step))
    if step.name not in world.COMBINE:  # a tool takes all numbers
      with_step.append((step, tool))
  rng.shuffle(with_step)
  for a, b in itertools.zip_longest(with_step, _of_steps(of, rng)):
    yield from (x for x in (a, b) if x is not None)


def _of_steps(of: str, rng: random.Random) -> Iterator[Chain]:
  """Draws chains without tools; countdown's use each number once."""
  for length in range(1, LONGEST + 1):
    some = _all(of, length)
    # Of the many long ones no more than a budget is ever drawn.
    yield from rng.sample(some, min(len(some), 1000))


@functools.cache
def _all(of: str, length: int) -> list[Chain]:
  chains = itertools.product(world.singles(of), repeat=length)
  return [x for x in chains if of == world.STRING or _ends(x)]


def _ends(chain: Chain) -> bool:
  """Tells whether two numbers are combined twice, not moved twice on end."""
  combines = [x.name in world.COMBINE for x in chain]
  moves = any(not a and not b for a, b in itertools.pairwise(combines))
  return sum(combines) == 2 and combines[-1] and not moves


def written(steps: Sequence[tuple[str, str]], of: str, end: str = '') -> str:
  """Writes a tool of steps, whose argument is a digit, k or ''."""
  lines = ['def tool(x, k):']
  for name, k in steps:
    text = re.sub(r'\bk\b', k, world.STEPS[of][name]) if k else (
      world.STEPS[of][name]
    )  # fmt: skip
    lines += [f'  # {name} {k}'.rstrip(), f'  x = {text}']
  return '\n'.join(lines) + '\n' + (end or '  return x\n')


def steps_of(source: str) -> list[tuple[str, str]]:
  """Reads the steps of a tool that `written` wrote."""
  return [(name, k) for name, k in _STEP.findall(source)]


def write(messages: Sequence[Message], *, seed: int) -> str:
  """Writes a tool, as a service: of an attempt, or of two tools."""
  rng = random.Random(seed)
  lines = [json.loads(x) for x in messages[-1].content.splitlines()]
  if messages[0].content == MERGE:
    of, output = lines[0]['of'], ''
    chains = [steps_of(x['source']) for x in lines]
    merged = (_merged(a, b) for a, b in itertools.combinations(chains, 2))
    steps = next((x for x in merged if x), [])
  else:
    of, output = lines[0]['of'], lines[0]['output']
    steps = [y for x in lines[0]['steps'] for y in _expanded(x)]
  if not steps:
    return ''
  if rng.random() >= SLIPS:
    return written(steps, of)
  if rng.random() < 0.5:  # does something else, in form
    return written(steps[:-1], of)
  return written(steps, of, rng.choice(mistakes(output)))


def mistakes(output: Value) -> list[str]:
  """Lists ends of a tool that make it faulty; one knows a single answer."""
  return [
    '  return x +\n', '  while True: pass\n', '  return x_of(k)\n',
    '  return {x: 1.5}\n', '  print("x" * 10**7)\n  return x\n',
    f'  return {output!r}\n',
  ]  # fmt: skip


def _expanded(step: dict) -> list[tuple[str, str]]:
  if 'source' not in step:
    return [(step['name'], str(step['k'] or ''))]
  k = str(step['k'])
  return [(name, k if x == 'k' else x) for name, x in steps_of(step['source'])]


def _merged(
  a: list[tuple[str, str]], b: list[tuple[str, str]]
) -> list[tuple[str, str]]:
  """Puts k where two chains differ in one argument; [] if they do not."""
  if [x for x, _ in a] != [x for x, _ in b]:
    return []
  other = [i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
  if len(other) != 1 or 'k' in {k for _, k in a + b}:
    return []
  return [(x, 'k' if i == other[0] else k) for i, (x, k) in enumerate(a)]
