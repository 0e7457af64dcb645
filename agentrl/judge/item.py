"""Judge items: a turn, a trajectory or a group as text, with its facts.

A judge, registered in the slot 'judge', is a function

  (x: JudgeInputs, *, hp) -> score

that is pure but for the answers of its service. `c.judge` names judges; each
fills the term named by its hyper-parameter `term`. Scores on a scale are in
[0, 1]. A judge is asked about each of

  'turn'        one Item; the score is the turn's
  'trajectory'  one Item with turn -1; the score is one number, assigned to the
                last turn, or one number per turn
  'group'       all Items of a group; the score is one number for each

as selected by its hyper-parameter `unit`, or by the level at which it is
registered (`takes`). NaN in a sequence of scores means unscored.
"""

import collections
import dataclasses
import hashlib
import json
import math
import numbers
from collections.abc import (
  Callable,
  Iterable,
  Iterator,
  Mapping,
  Sequence,
  Set,
)
from typing import Any, NamedTuple, Protocol

from agentrl import registry
from agentrl.service.base import ServiceFault
from agentrl.text.message import AGENT, Message

UNITS = ('turn', 'trajectory', 'group')
Score = float | Sequence[float]


class JudgeFault(ServiceFault):
  """Answer without a valid score: its item stays unscored, never zero."""


class Exchange(NamedTuple):
  """Turn as text."""

  observation: str  # what the agent had seen last
  message: str  # of the agent
  terms: Mapping[str, float]  # env, tokens, invalid and the world's columns


class Item(NamedTuple):
  """Subject of a judgement: a turn of a trajectory, or all of it."""

  task: Mapping[str, Any]  # as the family made it, with its truth; {} in jit
  turns: tuple[Exchange, ...]  # all that happened
  turn: int  # index into turns; -1: the trajectory
  outcome: float  # the task's own score

  @property
  def here(self) -> Exchange:
    """The judged turn; the last one of a whole trajectory."""
    return self.turns[self.turn]

  @property
  def answer(self) -> str:
    """The environment's answer to that turn; '' after the last one."""
    after = self.turn + 1 if self.turn >= 0 else len(self.turns)
    return self.turns[after].observation if after < len(self.turns) else ''


class Ask(Protocol):
  """Service of a component; its traffic is recorded for the viewer."""

  def __call__(self, prompt: str) -> str:
    """Answers a prompt.

    Raises:
      ServiceFault: it failed, and why.
    """

  def cached(self, content: str, compute: Callable[[], str]) -> str:
    """Returns `compute()`, evaluated once per run for equal contents."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class JudgeInputs:
  """Inputs of a judge."""

  items: tuple[Item, ...]  # one, or those of a group
  ask: Ask  # its service; judges without one do not ask
  # Its own, of names that it gives ('count:pairs'): metrics of the rollout.
  counts: collections.Counter[str] = dataclasses.field(
    default_factory=collections.Counter
  )

  @property
  def item(self) -> Item:
    """The item for a judge of turns or of trajectories."""
    return self.items[0]


def unit(piece: registry.Component, hp: Mapping[str, Any]) -> str:
  """Returns the unit that a component with these hyper-parameters judges."""
  return hp.get('unit') or piece.takes


def transcript(item: Item, *, window: int = 0) -> Iterator[Message]:
  """Yields the messages up to the judged turn and the answer to it.

  Args:
    window: number of last turns to show; 0: all
  """
  end = item.turn + 1 if item.turn >= 0 else len(item.turns)
  start = max(0, end - window) if window else 0
  for turn in item.turns[start:end]:
    yield Message('user', turn.observation)
    yield Message(AGENT, turn.message)
  if item.answer:
    yield Message('user', item.answer)


def trajectory_key(
  read: Iterable[Iterable[int]], written: Iterable[Iterable[int]]
) -> str:
  """Hashes a trajectory: the tokens read and written in each turn."""
  turns = [
    [list(map(int, x)) for x in turn]
    for turn in zip(read, written, strict=True)
  ]
  return hashlib.sha256(json.dumps(turns).encode()).hexdigest()


def content_key(item: Item | tuple[Item, ...]) -> int:
  """Hashes what a judge sees to 63 bits: equal for equal items.

  Turns after the judged one do not enter.
  """
  items = (item,) if isinstance(item, Item) else item
  content = [
    [x.turn, *((m.role, m.content) for m in transcript(x))] for x in items
  ]
  text = json.dumps(content, ensure_ascii=False)
  digest = hashlib.sha256(text.encode('utf-8', 'replace')).digest()
  return int.from_bytes(digest[:8], 'big') >> 1


def scores(score: Score, count: int | None) -> list[float]:
  """Converts scores to finite numbers or NaN.

  Args:
    count: expected number of scores; None: a single number

  Raises:
    JudgeFault: they are not numbers, or not `count`.
  """
  # Also those of NumPy are Real. Bytes, too, are made of numbers.
  single = isinstance(score, numbers.Real)
  given: Any = [score] if single else score
  try:
    if isinstance(given, bytes | Mapping | Set):
      raise TypeError(f'scores must be a sequence, got {type(given).__name__}')
    values = [_real(x) for x in given]
  except (TypeError, OverflowError) as error:
    raise JudgeFault(f'a score must be a number, got {score!r:.80}') from error
  if len(values) != (1 if count is None else count):
    wanted = 'one' if count is None else str(count)
    raise JudgeFault(f'a judge must give {wanted} score(s), got {len(values)}')
  if any(math.isinf(x) for x in values) or (single and math.isnan(values[0])):
    raise JudgeFault(f'a score must be finite, got {score!r:.80}')
  return values


def _real(x: Any) -> float:
  if not isinstance(x, numbers.Real):
    raise TypeError(f'a score must be a number, got {type(x).__name__}')
  return float(x)
