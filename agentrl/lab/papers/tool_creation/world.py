"""Tasks of strings and of numbers whose solutions recur with other inputs.

A solution is a chain of steps, each of which changes a value. A task of strings
shows an input with its output and asks for the output of another input; a task
of numbers is countdown: three numbers, used once each, make a target. A kind is
a chain; which kinds a world has, and that its tasks are of them, is not told.
"""

import functools
import random
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

Value = str | list[int]
Key = str | tuple[int, ...]
STRING, NUMBERS = 'string', 'numbers'
ARGUMENTS = (1, 2, 3)
# What a step makes of x; k is its argument.
STEPS = {
  STRING: {
    'reverse': 'x[::-1]',
    'sort': "''.join(sorted(x))",
    'double': 'x + x',
    'evens': 'x[::2]',
    'turn': 'x[k:] + x[:k]',
    'drop': 'x[k:]',
    'next': "''.join(chr((ord(c) - 97 + k) % 26 + 97) for c in x)",
  },
  NUMBERS: {
    'add': '[x[0] + x[1], *x[2:]]',
    'less': '[x[0] - x[1], *x[2:]]',
    'times': '[x[0] * x[1], *x[2:]]',
    'turn': 'x[k:] + x[:k]',
    'sort': 'sorted(x)',
  },
}
COMBINE = ('add', 'less', 'times')
_RUN = {
  of: {name: eval(f'lambda x, k: {text}') for name, text in steps.items()}
  for of, steps in STEPS.items()
}
HELD = 3  # pairs of a training task that are held back


class Step(NamedTuple):
  """A step and its argument; 0: it has none."""

  name: str
  k: int = 0


Chain = tuple[Step, ...]


class Pair(NamedTuple):
  """An input and what it becomes."""

  input: Value
  output: Value


class Task(NamedTuple):
  """A task; `asked.output` and `held` are for grading, and for try-outs."""

  of: str
  shown: Pair
  asked: Pair  # countdown asks for what it shows
  held: tuple[Pair, ...]
  kind: int


class Kinds(NamedTuple):
  """Solutions of a world."""

  train: tuple[tuple[str, Chain], ...]
  unseen: tuple[tuple[str, Chain], ...]  # an argument that no training task has


def apply(of: str, chain: Iterable[Step], x: Value) -> Value | None:
  """Applies steps in their order; None: one of them cannot be."""
  try:
    for name, k in chain:
      x = _RUN[of][name](x, k)
  except (IndexError, TypeError):
    return None
  return x


@functools.cache
def singles(of: str) -> tuple[Step, ...]:
  """Lists every step with each of its arguments."""
  out = []
  for name, text in STEPS[of].items():
    ks = ARGUMENTS if re.search(r'\bk\b', text) else (0,)
    out += [Step(name, k) for k in ks]
  return tuple(out)


def draw_kinds(seed: int) -> Kinds:
  """Draws 3 families of strings, their extensions, and forms of countdown.

  A family is two steps, one of them with an argument: 1 and 2 in training, 3
  unseen. An extension is a step before or after a member of a family.
  """
  rng = random.Random(seed)
  plain = [Step(x) for x in ('reverse', 'sort', 'double', 'evens')]
  families = rng.sample(
    [(a, name, first) for a in plain for name in ('turn', 'drop', 'next')
     for first in (True, False)], 3,
  )  # fmt: skip

  def member(family: tuple[Step, str, bool], k: int) -> Chain:
    a, name, first = family
    return (a, Step(name, k)) if first else (Step(name, k), a)

  train: list[tuple[str, Chain]] = []
  for family in families:
    train += [(STRING, member(family, k)) for k in ARGUMENTS[:2]]
    base, more = member(family, rng.choice(ARGUMENTS[:2])), rng.choice(plain)
    before = rng.random() < 0.5
    train.append((STRING, (more, *base) if before else (*base, more)))
  moves = [Step('turn', 1), Step('turn', 2), Step('sort')]
  for length in (3, 3, 4, 4):
    a, b = (Step(rng.choice(COMBINE)) for _ in range(2))
    form = (a, rng.choice(moves), b)
    train.append((NUMBERS, (rng.choice(moves), *form)[-length:]))
  unseen = tuple((STRING, member(x, ARGUMENTS[2])) for x in families)
  return Kinds(tuple(train), unseen)


def draw(
  kinds: Sequence[tuple[str, Chain]],
  count: int,
  seed: int,
  without: Iterable[Task] = (),
) -> list[Task]:
  """Draws tasks of kinds, each as often; of inputs that no other task has."""
  rng = random.Random(seed)
  used = {key(pair.input) for task in without for pair in pairs(task)}
  order = [i % len(kinds) for i in range(count)]
  rng.shuffle(order)
  out = []
  for kind in order:
    of, chain = kinds[kind]
    some = [_pair(of, chain, rng, used) for _ in range(2 + HELD)]
    asked = some[0] if of == NUMBERS else some[1]
    out.append(Task(of, some[0], asked, tuple(some[2:]), kind))
  return out


def _pair(of: str, chain: Chain, rng: random.Random, used: set[Key]) -> Pair:
  while True:
    x: Value = [rng.randint(10, 99) for _ in range(3)]
    if of == STRING:
      x = ''.join(rng.choice('abcdefghijklmnopqrstuvwxyz')
                  for _ in range(rng.randint(6, 8)))  # fmt: skip
    y = apply(of, chain, x)
    if key(x) not in used and y is not None:
      used.add(key(x))
      return Pair(x, y)


def pairs(task: Task) -> list[Pair]:
  """Lists all pairs of a task."""
  return [task.shown, task.asked, *task.held]


def key(x: Value) -> Key:
  """Returns a value as a key."""
  return x if isinstance(x, str) else tuple(x)
