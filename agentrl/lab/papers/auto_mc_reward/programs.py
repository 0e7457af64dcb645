"""Reward programs: run in the sandbox, and written by two scripted designers.

A program defines `reward(before, after)` of two states, dicts of x, y, has_key,
key, door, won, and returns a number. It is run once over all moves of a world,
in the sandbox; what crashes, hangs, ends early, defines no reward, or returns
anything but a finite number of at most LARGEST is refused, and why is what its
designer reads. A designer is a service; a language model at an address can
stand in its place.

Rewards are read from one line, after a random word of each run that is not
among the program's names, and written by functions held before it ran: what a
program prints, how it ends and what it rebinds make no rewards. It is not
guarded against a program that looks for the word in the frames or the memory of
its process; nor could it gain by that more than by a `reward` of its choice.
"""

import json
import random
import re
import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from agentrl.lab import archive
from agentrl.lab.papers.auto_mc_reward.world import World
from agentrl.text.message import Message
from agentrl.tool.sandbox.sandbox import Sandbox, SandboxLimits

LARGEST = 10.0
LIMITS = SandboxLimits(seconds=2.0, output=20_000)
SPARSE = 'def reward(before, after):\n  return 0.0\n'
_HARNESS = """
def _main(say, repr, type, int, float, nonce):
  own = {{'__name__': '__main__'}}
  exec(compile({program!r}, '<code>', 'exec'), own)
  reward, key, door = own['reward'], {key}, {door}
  def state(x, y, has, won):
    return {{'x': x, 'y': y, 'has_key': has, 'key': key, 'door': door,
            'won': won}}
  out = []
  for a, b in {pairs}:
    r = reward(state(*a), state(*b))
    out += [r if type(r) in (int, float) else None]
  say('\\n' + nonce + repr(out) + '\\n')
import sys
_main(sys.stdout.write, repr, type, int, float, {nonce!r})
"""


class Ran(NamedTuple):
  """What a program says of every move, or why it is refused."""

  reward: np.ndarray | None  # [X, 4]
  fault: str


def run(sandbox: Sandbox, program: str, world: World) -> Ran:
  """Runs a program over all moves of a world."""

  def state(s: int) -> list[Any]:
    x, y, has = world.cell(s)
    return [x, y, bool(has), s == world.won]

  pairs = [[state(s), state(to)] for s, row in enumerate(world.next)
           for to in row]  # fmt: skip
  nonce = secrets.token_hex(16)
  code = _HARNESS.format(
    program=program, pairs=pairs, key=tuple(world.key), door=tuple(world.door),
    nonce=nonce,
  )  # fmt: skip
  text, fault = sandbox.run(code)
  lines = text.strip().splitlines() or ['']
  if fault:
    return Ran(None, f'{fault}: {lines[-1][:80]}')
  own = [x.removeprefix(nonce) for x in lines if x.startswith(nonce)]
  return _read(own[0] if own else '', len(world.next))


def _read(line: str, states: int) -> Ran:
  """Reads what the harness printed; '': it was not reached."""
  try:
    said: Any = json.loads(line)
  except (ValueError, RecursionError):
    said = None
  right = isinstance(said, list) and len(said) == 4 * states
  if not right or not all(type(x) in (int, float) for x in said):
    return Ran(
      None, 'rubbish: reward(before, after) must return a finite number'
    )
  if not all(abs(x) <= LARGEST for x in said):  # nor is NaN
    return Ran(None, f'rubbish: rewards must lie in ±{LARGEST:g}')
  return Ran(np.array(said, float).reshape(states, 4), '')


# Lines that the scripted designers write, of a weight.
_AWAY = '(abs({0}["x"] - {0}["{1}"][0]) + abs({0}["y"] - {0}["{1}"][1]))'
_NEARER = f'({_AWAY.format("before", "{0}")} - {_AWAY.format("after", "{0}")})'
PARTS = {
  'key near': '  if not after["has_key"]: r += {w} / (1 + '
  + _AWAY.format('after', 'key')
  + ')',
  'key nearer': '  if not before["has_key"]: r += {w} * '
  + _NEARER.format('key'),
  'key fetched': '  if after["has_key"] > before["has_key"]: r += {w}',
  'door near': '  if after["has_key"]: r += {w} / (1 + '
  + _AWAY.format('after', 'door')
  + ')',
  'door nearer': '  if before["has_key"]: r += {w} * ' + _NEARER.format('door'),
  'door nearer without the key': '  r += {w} * ' + _NEARER.format('door'),
}
WEIGHTS = (0.02, 0.1, 0.5)
SLIPS = 0.2  # share of programs with a mistake
MISTAKES = (
  '  return r +\n', '  while True: pass\n', '  return reward_of(after)\n',
  '  return str(r)\n', '  return float("nan")\n', '  return r * 1e9\n',
)  # fmt: skip
_PART = re.compile(r'^  # (.+): (\S+)$', re.MULTILINE)


def write(parts: dict[str, float], mistake: str = '') -> str:
  """Writes a program of parts and their weights."""
  lines = ['def reward(before, after):', '  r = 0.0']
  for name, weight in parts.items():
    lines += [f'  # {name}: {weight:g}', PARTS[name].format(w=weight)]
  return '\n'.join(lines) + '\n' + (mistake or '  return r\n')


def parts_of(program: str) -> dict[str, float]:
  """Reads the parts of a program that `write` wrote."""
  return {name: float(weight) for name, weight in _PART.findall(program)}


def said_of(said: str) -> dict[str, float]:
  """Reads numbers of what was seen: 'key 0.40, won 0.00' -> {'key': 0.4}."""
  found = re.findall(r'(\w+) (-?\d+\.?\d*)', said)
  return {name: float(x) for name, x in found}


def refine(messages: Sequence[Message], *, seed: int) -> str:
  """Designs, as a service: changes the best program where its attempts fail.

  Without the key they lack a part about the key, with it one about the door; a
  part that pays for staying near is replaced by one that pays for coming nearer
  where states are visited again and again.
  """
  rng = random.Random(seed)
  known = [
    x for x in archive.read(messages) if not x.said.startswith('refused')
  ]
  base = max(known, key=lambda x: (x.value, said_of(x.said).get('key', 0.0)))
  parts, seen = parts_of(base.text), said_of(base.said)
  about = 'key' if seen.get('key', 0.0) < 0.5 else 'door'
  own = [x for x in parts if x.startswith(about)]
  if f'{about} near' in own and seen.get('revisits', 0.0) > 0.3:
    parts[f'{about} nearer'] = parts.pop(f'{about} near')
  elif own and rng.random() < 0.5:
    parts[rng.choice(own)] = rng.choice(WEIGHTS)
  else:
    some = [x for x in PARTS if x.startswith(about) and 'without' not in x]
    parts[rng.choice(some)] = rng.choice(WEIGHTS)
  return write(parts, rng.choice(MISTAKES) if rng.random() < SLIPS else '')


def guess(messages: Sequence[Message], *, seed: int) -> str:
  """Designs, as a service: any parts and weights, whatever was seen."""
  del messages
  rng = random.Random(seed)
  some = rng.sample(sorted(PARTS), rng.randint(1, 3))
  parts = {name: rng.choice(WEIGHTS) for name in some}
  return write(parts, rng.choice(MISTAKES) if rng.random() < SLIPS else '')
