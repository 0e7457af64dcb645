"""A fixed policy, and services that propose workflows: all scripted.

The policy writes an expression at random, or changes one in one place, upwards
if it makes too little: whether that is closer it does not know. What to go on
with is the scaffold's to find.
"""

import json
import random
import re
from collections.abc import Sequence
from typing import Any

from agentrl.lab import archive
from agentrl.lab.papers.adas import workflow as lib
from agentrl.text.message import Message

SIGNS = '-+*'  # each makes more than the one before, in most cases
SLIPS = 0.1  # share of proposals that are not in form
GREEDY = 0.7  # probability that the best workflow is changed
_REVISE = re.compile(r'^Revise: (\S+) makes (-?\d+)\.$', re.MULTILINE)
_TASK = re.compile(r'Make (-?\d+) of ([\d ]+)\.')


def policy(messages: Sequence[Message], *, seed: int) -> str:
  """Plays countdown, as a service: numbers from left to right.

  a∘b∘c∘d with numbers and signs at random; revised, two numbers change places,
  or one sign is one that makes more or less, as is wanted.
  """
  rng, text = random.Random(seed), messages[-1].content
  found = _TASK.search(text)
  assert found is not None, text
  numbers = [int(x) for x in found[2].split()]
  rng.shuffle(numbers)
  signs = [rng.choice(SIGNS) for _ in numbers[1:]]
  if revised := _REVISE.search(text):
    numbers = [int(x) for x in re.findall(r'\d+', revised[1])]
    signs = re.findall('[-+*]', revised[1])
    if rng.random() < 0.5:
      i, j = rng.sample(range(len(numbers)), 2)
      numbers[i], numbers[j] = numbers[j], numbers[i]
    else:
      last = SIGNS[-1] if int(revised[2]) < int(found[1]) else SIGNS[0]
      if some := [i for i, x in enumerate(signs) if x != last]:
        i = rng.choice(some)
        signs[i] = SIGNS[SIGNS.index(signs[i]) + (1 if last == '*' else -1)]
  return written(numbers, signs)


def written(numbers: Sequence[int], signs: Sequence[str]) -> str:
  """Writes an expression."""
  rest = zip(signs, numbers[1:], strict=True)
  return f'{numbers[0]}{"".join(f"{sign}{x}" for sign, x in rest)}'


def tasks(numbers: int, count: int, seed: int) -> list[lib.Task]:
  """Draws tasks that an expression of the policy's form solves."""
  rng = random.Random(seed)
  out = []
  while len(out) < count:
    some = [rng.randint(1, 12) for _ in range(numbers)]
    signs = [rng.choice(SIGNS) for _ in some[1:]]
    task = lib.Task(tuple(sorted(some)), 0)
    target = lib.value_of(written(some, signs), task)
    if target is not None and 0 < target <= 300:
      out.append(task._replace(target=int(target)))
  return out


def change(messages: Sequence[Message], *, seed: int) -> str:
  """Proposes, as a service: changes a workflow that it reads in one place."""
  rng = random.Random(seed)
  known = [
    x for x in archive.read(messages) if not x.said.startswith('refused')
  ]
  best = rng.random() < GREEDY
  base = json.loads((known[-1] if best else rng.choice(known)).text)
  _change(base, rng)
  return _perhaps_cut(json.dumps(base), rng)


def draw(messages: Sequence[Message], *, seed: int) -> str:
  """Proposes, as a service: a workflow at random, whatever it reads."""
  del messages
  rng = random.Random(seed)
  steps: list[dict[str, Any]] = [{'do': 'sample', 'n': rng.randint(1, 8)}]
  steps += [_step(rng) for _ in range(rng.randint(0, 3))]
  made = {'steps': steps, 'answer': rng.choice(lib.ANSWERS)}
  return _perhaps_cut(json.dumps(made), rng)


def _perhaps_cut(text: str, rng: random.Random) -> str:
  return text[: len(text) // 2] if rng.random() < SLIPS else text


def _step(rng: random.Random, inner: bool = False) -> dict[str, Any]:
  """Draws a step; within a repeat none is a repeat."""
  do = rng.choice(['sample', 'revise', 'keep', *['repeat'] * (not inner)])
  if do == 'repeat':
    steps = [_step(rng, True) for _ in range(2)]
    return {'do': do, 'times': rng.randint(2, 8), 'steps': steps}
  step = {'do': do, 'n': rng.randint(1, 4)}
  return step | {'by': rng.choice(lib.BY)} if do == 'keep' else step


def _change(made: dict[str, Any], rng: random.Random) -> None:
  """Changes one place of a workflow: an answer, a step or a number."""
  lists = [made['steps'], *(x['steps'] for x in made['steps'] if 'steps' in x)]
  steps = rng.choice(lists)
  how = rng.choice(['answer', 'insert', 'remove', 'number', 'split', 'by'])
  i = rng.randrange(len(steps))
  if how == 'answer':
    made['answer'] = rng.choice(lib.ANSWERS)
  elif how == 'insert' or (how == 'remove' and len(steps) == 1):
    steps.insert(i + 1, _step(rng, steps is not made['steps']))
  elif how == 'remove':
    del steps[i]
  elif how == 'split' and steps[i]['do'] == 'sample' and steps[i]['n'] > 1:
    half = steps[i]['n'] // 2
    steps[i]['n'] -= half
    kept = {'do': 'keep', 'n': rng.randint(1, 4), 'by': rng.choice(lib.BY)}
    steps[i + 1 : i + 1] = [kept, {'do': 'revise', 'n': half}]
  elif how == 'by' and steps[i]['do'] == 'keep':
    steps[i]['by'] = rng.choice(lib.BY)
  else:
    name = 'times' if steps[i]['do'] == 'repeat' else 'n'
    steps[i][name] = max(1, steps[i][name] + rng.choice([-4, -2, -1, 1, 2, 4]))
