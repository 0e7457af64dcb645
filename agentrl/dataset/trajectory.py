"""Stored trajectory: its tokens as sampled, rewards and outcome.

A turn is the context new to the model and the message that followed, token by
token, with everything a training row needs. Nothing is rendered from text
again, so rows of a stored trajectory (agentrl/rollout/stored.py) equal the
sampled ones bit for bit.
"""

import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agentrl.dataset import numbers
from agentrl.domain import OneOf
from agentrl.types import Span, Status

# Who made the tokens of messages; a store holds the place in this tuple, so
# append only.
SOURCES = ('policy', 'demonstration', 'import', 'edited')
_SOURCE_OF = {
  'policy': 'policy',
  'prefix': 'policy',  # which was given the first turns
  'replay': 'policy',
  'demonstration': 'demonstration',
}
# How turns become rows: one row of all, a row each, either one; or one row
# whose branches are segments. Stores hold the places: append only.
HISTORIES = ('full', 'turn', '', 'tree')
_INT64 = 2**63 - 1


class StoredTurn(NamedTuple):
  """Turn: C tokens of context new to the model, M tokens of its message.

  With history 'turn' the context is everything the model read.
  """

  context: np.ndarray  # [C] i32
  context_span: np.ndarray  # [C] i8  see types.Span
  context_weight: np.ndarray  # [C] f32  trained on; 0 in what was sampled
  message: np.ndarray  # [M] i32
  span: np.ndarray  # [M] i8
  weight: np.ndarray  # [M] f32  trained on; 1 in what was sampled
  logp: np.ndarray  # [M] f32  when it was sampled, nats; 0: unknown
  version: np.ndarray  # [M] i32  policy version that wrote the token
  entropy: float  # summed over the message, nats; 0: unknown
  reward: float  # of the turn, after the reward slot
  action: int  # as parsed; -1 not understood
  state: int  # hash of the observation
  scored: bool  # False: a judge failed, or the turn was curated away
  terms: Mapping[str, float]  # reward terms, costs, ... by name


class StoredTrajectory(NamedTuple):
  """Trajectory with its origin and age."""

  turns: tuple[StoredTurn, ...]
  task: int | str  # index into the task set, or the text of the task
  group: int  # attempts at one task in one step are equal
  outcome: float  # the task's own score; 1 is solved
  status: Status
  source: str  # one of SOURCES
  step: int  # training step that sampled it; -1: none did
  history: str  # one of HISTORIES; '': unknown
  encoded: bool  # tokens were made from text by us, not sampled

  @property
  def id(self) -> str:
    """Content id, 16 hexadecimal digits: equal for equal turns and outcomes.

    It does not depend on the origin (group, source, step).
    """
    hashed = hashlib.sha256()
    for turn in self.turns:
      arrays, numbers = turn[:8], turn[8:13]
      for x in arrays:
        hashed.update(str(len(x)).encode() + x.dtype.str.encode() + x.tobytes())
      terms = sorted(turn.terms.items())
      hashed.update(repr([*map(float, numbers), *terms]).encode())
    whole = [self.task, float(self.outcome), int(self.status), self.encoded]
    hashed.update(repr([*whole, self.history]).encode())
    return hashed.hexdigest()[:16]

  @property
  def tokens(self) -> int:
    """Number of tokens of all messages."""
    return sum(len(turn.message) for turn in self.turns)

  @property
  def reward(self) -> float:
    """Sum of the rewards of all turns."""
    return sum(turn.reward for turn in self.turns)

  @property
  def solved(self) -> bool:
    """Whether the outcome is above 0.5, as evaluations count it."""
    return self.outcome > 0.5


_SPAN = functools.partial(numbers.whole_numbers, low=0, high=max(Span))
_WEIGHT = functools.partial(numbers.reals, low=0.0)
_READ: dict[str, Callable[..., np.ndarray]] = {
  'context': numbers.token_ids,
  'context_span': _SPAN,
  'context_weight': _WEIGHT,
  'message': numbers.token_ids,
  'span': _SPAN,
  'weight': _WEIGHT,
  'logp': functools.partial(numbers.log_probs, finite=False),
  'version': numbers.whole_numbers,
}


def make_turn(
  context: Sequence[int] | np.ndarray,
  message: Sequence[int] | np.ndarray,
  *,
  context_span=Span.OTHER,
  context_weight=0.0,
  span=Span.OTHER,
  weight=1.0,
  logp=0.0,
  version=0,
  entropy: float = 0.0,
  reward: float = 0.0,
  action: int = 0,
  state: int = 0,
  scored: bool = True,
  terms: Mapping[str, float] | None = None,
) -> StoredTurn:
  """Builds a turn from tokens; a scalar is repeated for every token.

  Raises:
    ValueError: values that do not match the tokens one for one or are invalid:
      not a token id, not finite, ...
  """

  def of(name: str, x, tokens, dtype) -> np.ndarray:
    several = isinstance(x, np.ndarray | list | tuple)
    x = _READ[name](name, x if several else [x])
    if several and len(x) != len(tokens):
      raise ValueError(
        f'{name} must be one number or {len(tokens)} values, one per token,'
        f' got shape {x.shape}'
      )
    return np.broadcast_to(x, (len(tokens),)).astype(dtype)

  i, i8, f = np.int32, np.int8, np.float32
  return StoredTurn(
    context=of('context', context, context, i),
    context_span=of('context_span', context_span, context, i8),
    context_weight=of('context_weight', context_weight, context, f),
    message=of('message', message, message, i),
    span=of('span', span, message, i8),
    weight=of('weight', weight, message, f),
    logp=of('logp', logp, message, f),
    version=of('version', version, message, i),
    entropy=single(entropy),
    reward=single(reward),
    action=int(action),
    state=int(state),
    scored=bool(scored),
    terms={name: single(x) for name, x in (terms or {}).items()},
  )


def single(x: float) -> float:
  """Rounds a number to float32."""
  return float(np.float32(float(x)))


def from_log(line: Mapping[str, Any]) -> StoredTrajectory:
  """Reads a trajectory from a line of a run's log (docs/TRAJECTORIES.md).

  The log holds per-token spans, weights and versions only where they differ
  from the default: weight 1, context without spans, one version per turn.

  Raises:
    ValueError: the line is not a trajectory, or lacks a turn.
  """
  try:
    turns = [_from_log(turn) for turn in numbers.listed('turns', line['turns'])]
    k = [turn['k'] for turn in line['turns']]
    who = line['turns'][0]['said']['who'] if turns else 'policy'
    task, group, step = (
      numbers.whole(x, line[x], low=-_INT64, high=_INT64)
      for x in ('task', 'group', 'step')
    )
    outcome = numbers.number('outcome', line['outcome'])
    status, source = Status[line['status'].upper()], _SOURCE_OF[who]
    history = line['history']
    OneOf(*HISTORIES).check('history', history)
  except (KeyError, TypeError, AttributeError) as error:
    raise ValueError(
      'a line of the log must be a trajectory as written to'
      f' <run>/trajectories/*.jsonl ({type(error).__name__}: {error})'
    ) from error
  if k != list(range(len(k))):
    raise ValueError(
      f'turns must be numbered from 0 without gaps, got {k} (task {task},'
      f' group {group}, step {step}); leave the trajectory out'
    )
  return StoredTrajectory(
    turns=tuple(turns),
    task=task,
    group=group,
    outcome=outcome,
    status=status,
    source=source,
    step=step,
    history=history,
    encoded=False,
  )


def _from_log(turn: Mapping[str, Any]) -> StoredTurn:
  read, message, terms = turn['read'], turn['said'], turn['terms']
  terms = {name: numbers.logged(name, x) for name, x in terms.items()}
  version = numbers.whole('version', turn['version'])
  return make_turn(
    read['tokens'],
    message['tokens'],
    context_span=read.get('span', Span.OTHER),
    span=message.get('span', Span.OTHER),
    weight=message.get('weight', 1.0),
    logp=[numbers.logged('logp', x) for x in turn['token']['logp']],
    version=message.get('version', version),
    entropy=terms.get('entropy', 0.0),
    reward=numbers.number('reward', turn['reward']),
    action=-1 if terms.get('invalid', 0.0) else 0,
    state=numbers.whole('state', turn['state'], low=-(2**31)),
    scored=turn['scored'],
    terms=terms,
  )


def task_number(task: int | str) -> int:
  """Returns a task's index, or a negative 63-bit hash of its text."""
  if isinstance(task, int):
    return task
  digest = hashlib.sha256(json.dumps(task).encode()).digest()
  return -1 - (int.from_bytes(digest[:8], 'big') >> 1)


def status_of(outcome: float) -> Status:
  """Derives the status of a trajectory from its outcome alone."""
  return Status.SOLVED if outcome > 0.5 else Status.FAILED
