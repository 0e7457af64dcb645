"""Judge items: a turn, a trajectory or a group as text, with its facts.

A judge, registered in the slot 'judge', is a function

  (x: JudgeInputs, *, hp) -> score

that is pure but for the answers of its service. `c.judge` names judges; the
term that each fills is its hyper-parameter `term`. Scores of a judge that has
a scale are in [0, 1]. A judge is asked about each of

  'turn'        one Item; the score is the turn's
  'trajectory'  one Item with turn -1; the score is one number, which is put on
                the last turn, or one for each turn
  'group'       all Items of a group; the score is one number for each

and which is its hyper-parameter `unit`, or the level at which it is registered
(`takes`). In a sequence of scores NaN says that there is none.
"""

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
  """An answer that holds no score: its item stays unscored, never a zero."""


class Exchange(NamedTuple):
  """A turn as text."""

  observation: str  # what the agent had seen last
  message: str  # of the agent
  terms: Mapping[str, float]  # env, tokens, invalid and the world's columns


class Item(NamedTuple):
  """What a judge is asked about: a turn of a trajectory, or all of it."""

  task: Mapping[str, Any]  # as the family made it, with its truth; {} in jit
  turns: tuple[Exchange, ...]  # all that happened
  turn: int  # index into turns; -1: the trajectory
  outcome: float  # the task's own score

  @property
  def here(self) -> Exchange:
    """The turn that is asked about, the last one of a whole trajectory."""
    return self.turns[self.turn]

  @property
  def answer(self) -> str:
    """The environment's answer to that turn; '' after the last one."""
    after = self.turn + 1 if self.turn >= 0 else len(self.turns)
    return self.turns[after].observation if after < len(self.turns) else ''


class Ask(Protocol):
  """The service of a piece; what passes is recorded for the viewer."""

  def __call__(self, prompt: str) -> str:
    """The answer to a prompt.

    Raises:
      ServiceFault: there is none, and why.
    """

  def cached(self, content: str, compute: Callable[[], str]) -> str:
    """What `compute` returns, computed once for equal contents in a run."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class JudgeInputs:
  """Inputs of a judge."""

  items: tuple[Item, ...]  # one, or those of a group
  ask: Ask  # its service; judges without one do not ask

  @property
  def item(self) -> Item:
    """The item that a judge of turns or of trajectories is asked about."""
    return self.items[0]


def unit(piece: registry.Component, hp: Mapping[str, Any]) -> str:
  """What a piece with these hyper-parameters is asked about."""
  return hp.get('unit') or piece.takes


def transcript(item: Item, *, window: int = 0) -> Iterator[Message]:
  """Messages of the item: up to its turn and the answer to that.

  Args:
    window: turns shown at most, the last ones; 0: all
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
  """Content id of a trajectory: of the tokens read and written in each turn."""
  turns = [
    [list(map(int, x)) for x in turn]
    for turn in zip(read, written, strict=True)
  ]
  return hashlib.sha256(json.dumps(turns).encode()).hexdigest()


def content_key(item: Item | tuple[Item, ...]) -> int:
  """Content id of what a judge sees, 63 bits: equal for equal items.

  Later turns than the one that is asked about do not enter.
  """
  items = (item,) if isinstance(item, Item) else item
  content = [
    [x.turn, *((m.role, m.content) for m in transcript(x))] for x in items
  ]
  text = json.dumps(content, ensure_ascii=False)
  digest = hashlib.sha256(text.encode('utf-8', 'replace')).digest()
  return int.from_bytes(digest[:8], 'big') >> 1


def scores(score: Score, count: int | None) -> list[float]:
  """The scores as finite numbers or NaN.

  Args:
    count: how many there are to be; None: the score is one number

  Raises:
    JudgeFault: they are none, or not so many.
  """
  # Also those of NumPy are Real. Bytes, too, are made of numbers.
  single = isinstance(score, numbers.Real)
  given: Any = [score] if single else score
  try:
    if isinstance(given, bytes | Mapping | Set):
      raise TypeError(f'a {type(given).__name__} has no places')
    values = [_real(x) for x in given]
  except (TypeError, OverflowError) as error:
    raise JudgeFault(f'the score {score!r:.80} is no number') from error
  if len(values) != (1 if count is None else count):
    wanted = 'one' if count is None else str(count)
    raise JudgeFault(f'{len(values)} scores where {wanted} had to be')
  if any(math.isinf(x) for x in values) or (single and math.isnan(values[0])):
    raise JudgeFault(f'the score {score!r:.80} is not finite')
  return values


def _real(x: Any) -> float:
  if not isinstance(x, numbers.Real):
    raise TypeError(f'a {type(x).__name__} is no number')
  return float(x)
