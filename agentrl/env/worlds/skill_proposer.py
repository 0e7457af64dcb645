"""Proposes what to practise by rule, from the text that a model would read.

`propose` stands in for a language model that monitors curves and builds a
curriculum; it reads what task/skill_operations.py writes. `propose_at_random`
monitors alike and proposes anything that may be: a control.
"""

import json
import random
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from agentrl.text.message import Message

WIDTH = 4  # skills in practice at a time
_CURVE = re.compile(r'^(\S+(?: \S+)*): (not yet|\d+/\d+(?: \d+/\d+)*)$')
_RULE = re.compile(
  r'^Converged: (\d+) updates, at least (\S+) solved .* at most (\S+) from'
)
_SECTIONS = ('Library:', 'In practice:', 'Tried before:')
Skill = tuple[str, ...]
Curve = tuple[tuple[int, int], ...]  # (solved, made) by update


class Told(NamedTuple):
  """What a question says."""

  basic: tuple[str, ...]
  longest: int  # basic skills that one consists of, at most
  points: int  # of a curve that may have converged
  level: float
  tolerance: float
  library: dict[Skill, Curve]
  practised: dict[Skill, Curve]
  tried: dict[Skill, Curve]


def propose(messages: Sequence[Message], *, seed: int) -> str:
  """Proposes, as a service, the shortest skills that are not mastered yet.

  A skill in practice stays until it has converged, or has failed in all points
  of a whole curve. Free places go to basic skills, then to a library skill with
  a basic one behind it, shortest first and those that have failed last; at the
  end, to the longest of the library.
  """
  told, rng = _read(messages[-1].content), random.Random(seed)
  mastered = _mastered(told)
  known = {*told.library, *mastered}
  kept = [
    x
    for x, curve in told.practised.items()
    if x not in mastered and not _hopeless(curve, told.points)
  ]
  failed = {*told.practised, *told.tried}
  basic = [(x,) for x in told.basic]
  longer = [
    x + y
    for x in sorted(known)
    for y in basic
    if y in known and len(x + y) <= told.longest
  ]
  new = [x for x in [*basic, *longer] if x not in known and x not in kept]
  rng.shuffle(new)
  new.sort(key=lambda x: (len(x), x in failed))
  chosen = [*kept, *new][:WIDTH]
  if not chosen:
    most = max(map(len, known), default=0)
    last = [x for x in sorted(known) if len(x) == most]
    chosen = rng.sample(last, min(WIDTH, len(last)))
  return _answer(mastered, [_composed(x, known) for x in chosen])


def propose_at_random(messages: Sequence[Message], *, seed: int) -> str:
  """Proposes skills drawn from all that may be proposed: a control.

  Each as likely, whatever its curve; it says of the same skills that they have
  converged.
  """
  told, rng = _read(messages[-1].content), random.Random(seed)
  mastered = _mastered(told)
  known = {*told.library, *mastered}
  parts = [x for x in told.basic if (x,) in known]
  sizes = [1, *(range(2, told.longest + 1) if parts else ())]
  weights = [len(told.basic), *(float(len(parts)) ** n for n in sizes[1:])]
  chosen = []
  for size in rng.choices(sizes, weights, k=WIDTH):
    every = told.basic if size == 1 else parts
    chosen.append(rng.choices(every, k=size))
  return _answer(mastered, chosen)


def _composed(skill: Skill, known: set[Skill]) -> list[str]:
  """Returns the names of what a skill is made of: a known one, and the rest."""
  if len(skill) == 1 or skill in known:
    return [' '.join(skill)]
  return [' '.join(skill[:-1]), skill[-1]]


def _answer(mastered: Sequence[Skill], proposed: Sequence[list[str]]) -> str:
  operations: list[dict[str, Any]] = [
    {'op': 'ADD', 'skill': ' '.join(x)} for x in mastered
  ]
  operations += [{'op': 'PRACTISE', 'of': x} for x in proposed]
  return json.dumps(operations or [{'op': 'NOOP'}])


def _mastered(told: Told) -> list[Skill]:
  """Lists skills outside the library whose curves are high and flat."""
  every = told.practised | told.tried
  return [x for x, curve in every.items() if _converged(curve, told)]


def _converged(curve: Curve, told: Told) -> bool:
  if len(curve) < told.points:
    return False
  half = len(curve) // 2
  old, new = _rate(curve[:half]), _rate(curve[half:])
  flat = abs(new - old) <= told.tolerance + 1e-6
  return new >= told.level - 1e-6 and flat


def _hopeless(curve: Curve, points: int) -> bool:
  return len(curve) >= points and _rate(curve) == 0


def _rate(curve: Curve) -> float:
  return sum(x for x, _ in curve) / sum(y for _, y in curve)


def _read(text: str) -> Told:
  """Reads a question of skill_operations."""
  basic, longest, rule = tuple[str, ...](), 1, (1, 1.0, 0.0)
  curves: dict[str, dict[Skill, Curve]] = {x: {} for x in _SECTIONS}
  section = ''
  for line in text.split('\n'):
    if line in _SECTIONS:
      section = line
    elif line.startswith('Basic skills: '):
      named = line.partition(': ')[2].split(', ')
      basic = tuple(x for x in named if ' ' not in x)  # no 'and 9 more'
    elif found := re.search(r'in order, at most (\d+)\.', line):
      longest = int(found[1])
    elif found := _RULE.match(line):
      rule = int(found[1]), float(found[2]), float(found[3])
      section = ''
    elif section and (found := _CURVE.match(line)):
      points = re.findall(r'(\d+)/(\d+)', found[2])
      curve = tuple((int(x), int(y)) for x, y in points)
      curves[section][tuple(found[1].split(' '))] = curve
  return Told(basic, longest, *rule, *curves.values())
