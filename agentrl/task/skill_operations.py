"""Operations by which a service decides what is practised.

It sees the curves of skills and the library, and answers with a list in JSON:

  [{"op": "ADD", "skill": "a"}, {"op": "PRACTISE", "of": ["a", "a b"]},
   {"op": "PRACTISE", "of": ["c"]}, {"op": "NOOP"}]

ADD puts a skill into the library. PRACTISE proposes the skill that is made of
some in the library, one after the other, or a basic one alone; all of an
answer together are what is practised from now on. Nothing of an answer is ever
shown again: names are those of the environment.
"""

from typing import Any, NamedTuple

import numpy as np

from agentrl.env.skills import SkillTable
from agentrl.memory import skills
from agentrl.memory.skills import Skills
from agentrl.text import json_lists

MOST = 20_000  # characters of an answer that is read
FORM = (
  'Answer with a JSON list of operations. {"op": "ADD", "skill": "NAME"} puts a'
  ' skill that has converged into the library. {"op": "PRACTISE", "of":'
  ' ["NAME", "NAME"]} proposes the skill that these make one after the other:'
  ' skills of the library, or one basic skill alone; without any PRACTISE all'
  ' stays in practice. {"op": "NOOP"} does nothing.'
)
_NONE = 'none'
Skill = tuple[str, ...]  # its basic skills


class Decision(NamedTuple):
  """What an answer comes to."""

  proposed: np.ndarray  # [S] bool  by PRACTISE
  added: np.ndarray  # [S] bool  by ADD
  refused: int  # operations that cannot be used


class Rule(NamedTuple):
  """When a curve has converged (skills.converged)."""

  level: float
  tolerance: float
  confirm: bool  # whether what is added must have


def question(
  instruction: str,
  table: SkillTable,
  state: Skills,
  step: int,
  *,
  rule: Rule,
  shown: int,
) -> str:
  """Writes what a service is asked.

  Args:
    state: host arrays
    step: of RL
    shown: skills of each kind, at most
  """
  known = np.arange(len(state.added)) < len(table.parts)
  library, practised = state.added >= 0, state.practised
  again = [table.names[i] for i in np.flatnonzero(practised & library & known)]
  practised = practised & ~library & known
  tried = (state.tried > 0).any(axis=1) & ~library & ~practised & known
  basic = [table.names[i] for i in np.flatnonzero(table.basic())]
  window = state.won.shape[1]
  converged = (
    f'Converged: {window} updates, at least {rule.level:g} solved in the'
    f' newer half of them, which is at most {rule.tolerance:g} from the'
    ' older half.'
  )
  return '\n'.join(
    [
      instruction,
      '',
      f'Update {step}. A skill is the basic skills that it consists of, in'
      f' order, at most {table.longest}. Behind its name stand attempts solved'
      ' / made in each of the newest updates that practised it.',
      f'Basic skills: {", ".join(_some(basic, shown))}',
      'Library:',
      *_lines(table, state, library & known, shown),
      f'Of these in practice: {", ".join(_some(again, shown)) or _NONE}',
      'In practice:',
      *_lines(table, state, practised, shown),
      'Tried before:',
      *_lines(table, state, tried, shown),
      converged,
      '',
      FORM,
    ]
  )


def _some(names: list[str], most: int) -> list[str]:
  """Shortens a list, and says by how much."""
  more = [f'and {len(names) - most} more'] if len(names) > most else []
  return [*names[:most], *more]


def _lines(table: SkillTable, state: Skills, which, most: int) -> list[str]:
  """Writes the curve of each of some skills."""
  lines = list[str]()
  for i in np.flatnonzero(which):
    points = zip(state.won[i], state.tried[i], strict=True)
    curve = [f'{won}/{tried}' for won, tried in points if tried]
    lines.append(f'{table.names[i]}: {" ".join(curve) or "not yet"}')
  return _some(lines, most) or [_NONE]


def parsed(
  answer: str,
  table: SkillTable,
  state: Skills,
  *,
  rule: Rule,
  operations: int,
) -> Decision:
  """Reads an answer; what cannot be used costs itself alone, and is counted.

  A text around the list does not matter. Operations apply in their order, so
  that what is added may be part of what is proposed after it.

  Args:
    state: host arrays, that the service was shown
    operations: that are read, at most; more are refused
  """
  index = {parts: i for i, parts in enumerate(table.parts)}
  won, tried = np.asarray(state.won), np.asarray(state.tried)
  may: np.ndarray = np.any(tried > 0, axis=1)
  if rule.confirm:
    may = skills.converged(won, tried, rule.level, rule.tolerance)
  basic = {table.parts[i] for i in np.flatnonzero(table.basic())}
  there = np.flatnonzero(np.asarray(state.added) >= 0)
  library = {table.parts[i] for i in there}
  proposed, added = np.zeros((2, len(may)), bool)

  def use(operation: Any) -> bool:
    """Applies an operation; False: it cannot be used."""
    match operation:
      case {'op': 'NOOP'}:
        return True
      case {'op': 'ADD', 'skill': str(name)}:
        parts = tuple(name.split())
        i = index.get(parts, -1)
        if i < 0 or parts in library or not may[i]:
          return False
        library.add(parts)
        added[i] = True
        return True
      case {'op': 'PRACTISE', 'of': list(given)}:
        i = index.get(_composed(given, library, basic), -1)
        if i >= 0:
          proposed[i] = True
        return i >= 0
    return False

  listed = json_lists.read(answer) if len(answer) <= MOST else None
  if listed is None:
    return Decision(proposed, added, 1)
  used = [use(x) for x in listed[:operations]]
  return Decision(proposed, added, len(listed) - sum(used))


def _composed(
  given: list[Any], library: set[Skill], basic: set[Skill]
) -> Skill:
  """Joins skills of the library, or a basic one alone; (): they are others."""
  each = [tuple(x.split()) for x in given if isinstance(x, str)]
  known = library | basic if len(given) == 1 else library
  if len(each) < len(given) or not known.issuperset(each):
    return ()
  return tuple(part for skill in each for part in skill)
