"""Injected errors: find who made which mistake in the log of a team.

  6 +5 *2 -3
  planner +5 *2 -3
  solver 6+5=11
  solver 11*2=21
  solver 21-3=18
  checker 18
  solver slip

As in AEGIS (arXiv 2509.14295): a team that succeeds is played, one of its
messages is changed, and all that follows is played again from there, so that
the team fails and the label is known by construction. A planner copies the
steps of a task, a solver carries them out one after another, and a checker
reports the last number. Each may

  omit   leave a step out
  alter  write another number in place of one that it was given
  slip   get a sum, difference or product wrong

or, where nothing was injected, do its part: the answer is "none".
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from agentrl import domain
from agentrl.env import task_sampling
from agentrl.env.base import HostTask, Step
from agentrl.text.tool_calls.base import spoken

PLANNER, SOLVER, CHECKER = 'planner', 'solver', 'checker'
OMIT, ALTER, SLIP = 'omit', 'alter', 'slip'
NONE = 'none'
# Who can make which mistake; a checker has one number to report.
KINDS = (
  (PLANNER, OMIT),
  (PLANNER, ALTER),
  (SOLVER, OMIT),
  (SOLVER, ALTER),
  (SOLVER, SLIP),
  (CHECKER, ALTER),
)
LARGEST = 99  # of the numbers of a team that makes no mistake
RULES = (
  'The first line is a task: a number and steps, one after another. A planner'
  ' copies the steps, a solver carries them out, a checker reports the result.'
  ' At most one of them made a mistake: omit (a step is left out), alter (a'
  ' given number is written as another one) or slip (a wrong result). Answer'
  ' with the agent and the mistake, such as "solver slip", or with "none".'
)
LOST = 'Answer with an agent and a mistake, or none.'
Operation = tuple[str, int]  # + - *, and a number


class Error(NamedTuple):
  """An injected mistake: whose, which, where and what is written instead."""

  agent: str
  mode: str
  step: int  # of the plan; 0 for the checker
  number: int  # in place of the right one; 0: nothing is written


@dataclasses.dataclass(frozen=True)
class InjectedErrors:
  """A task is a start, steps, and the error that was injected, if any."""

  steps: Annotated[int, domain.Whole(2, 8)] = 3
  largest: Annotated[int, domain.Whole(2, 9)] = 5  # number of a step
  clean: domain.Chance = 0.15  # share of logs without an error
  held_out: str = ''  # kinds that are not trained on: 'solver alter, ...'
  partial: domain.Chance = 0.5  # reward of the agent or the mistake alone
  teach: bool = False  # the system text states the rules

  columns: ClassVar[tuple[str, ...]] = ('agent_right', 'mode_right', 'unseen')
  worker: ClassVar[str] = 'thread'

  def __post_init__(self):
    domain.check_fields(self)
    wrong = [x for x in self.unseen if x not in KINDS]
    if wrong or len(self.unseen) == len(KINDS):
      kinds = ', '.join(' '.join(x) for x in KINDS)
      raise ValueError(
        f'held_out={self.held_out!r} must be some of "{kinds}", and not all,'
        ' with commas between'
      )

  @property
  def unseen(self) -> tuple[tuple[str, ...], ...]:
    """Kinds of `held_out`."""
    parts = self.held_out.split(',') if self.held_out.strip() else []
    return tuple(dict.fromkeys(tuple(x.split()) for x in parts))

  @property
  def system(self) -> str:
    return RULES if self.teach else ''

  def name(self) -> str:
    return task_sampling.name('injected_errors', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Yields logs with their labels as demonstrations; see `EnvFamily`.

    Kinds of `held_out` are in no task to train on, and in a test set as often
    as each other kind.
    """
    left_out = self.unseen if split == 'train' else ()
    kinds = [x for x in KINDS if x not in left_out]

    def draw(rng: np.random.Generator) -> dict[str, Any] | None:
      return self._draw(rng, kinds)

    return task_sampling.drawn(draw, _solve, split, count, seed)

  def env(self) -> 'InjectedErrorsEnv':
    return InjectedErrorsEnv(self.partial, self.unseen)

  def _draw(
    self, rng: np.random.Generator, kinds: Sequence[tuple[str, str]]
  ) -> dict[str, Any] | None:
    """Draws a task; None if its error would not change what is reported."""
    start = int(rng.integers(1, 10))
    plan = [
      ('+-*'[rng.integers(3)], int(rng.integers(1, self.largest + 1)))
      for _ in range(self.steps)
    ]
    task = {'start': start, 'plan': [list(x) for x in plan], 'error': None}
    numbers = results(start, plan)
    if not all(0 <= x <= LARGEST for x in numbers):
      return None
    if rng.random() < self.clean:
      return task
    agent, mode = kinds[int(rng.integers(len(kinds)))]
    error = inject(agent, mode, start, plan, rng)
    if reported(start, plan, error) == numbers[-1]:
      return None
    return task | {'error': list(error)}


def results(start: int, plan: Sequence[Operation]) -> list[int]:
  """Returns the numbers after each step."""
  out = [start]
  for operation in plan:
    out.append(apply(out[-1], operation))
  return out[1:]


def apply(x: int, operation: Operation) -> int:
  """Applies + - or * and a number."""
  sign, number = operation
  return {'+': x + number, '-': x - number, '*': x * number}[sign]


def inject(
  agent: str,
  mode: str,
  start: int,
  plan: Sequence[Operation],
  rng: np.random.Generator,
) -> Error:
  """Draws an error of a kind for a team that makes none."""
  step = 0 if agent == CHECKER else int(rng.integers(len(plan)))
  if mode == OMIT:
    return Error(agent, mode, step, 0)
  numbers = results(start, plan)
  if agent == CHECKER:
    right = numbers[-1]
  else:
    right = plan[step][1] if mode == ALTER else numbers[step]
  off = int(rng.integers(1, 4)) * (1 if rng.random() < 0.5 else -1)
  return Error(agent, mode, step, right + off if right + off > 0 else right + 1)


def team(
  start: int, plan: Sequence[Operation], error: Error | None
) -> Iterator[tuple[str, str]]:
  """Plays the team: yields (agent, message), each message read by the next.

  Whoever makes no mistake does its part with what it was given.
  """
  at = error or Error('', '', 0, 0)
  copied = list(plan)
  if at.agent == PLANNER:
    copied = _mistaken(copied, at)
  yield PLANNER, ' '.join(f'{sign}{x}' for sign, x in copied)
  carried = copied
  if at.agent == SOLVER and at.mode != SLIP:
    carried = _mistaken(copied, at)
  x = start
  for i, (sign, number) in enumerate(carried):
    y = apply(x, (sign, number))
    if at.agent == SOLVER and at.mode == SLIP and i == at.step:
      y = at.number
    yield SOLVER, f'{x}{sign}{number}={y}'
    x = y
  yield CHECKER, str(at.number if at.agent == CHECKER else x)


def _mistaken(plan: list[Operation], at: Error) -> list[Operation]:
  """Returns a plan with a step left out, or with another number in it."""
  new = [] if at.mode == OMIT else [(plan[at.step][0], at.number)]
  return [*plan[: at.step], *new, *plan[at.step + 1 :]]


def reported(start: int, plan: Sequence[Operation], error: Error | None) -> int:
  """Returns the number that the checker reports."""
  *_, (_, last) = team(start, plan, error)
  return int(last)


def log(task: Mapping[str, Any]) -> str:
  """Writes the task and what its team said."""
  start, plan, error = task['start'], task['plan'], task['error']
  asked = ' '.join([str(start), *(f'{sign}{x}' for sign, x in plan)])
  said = team(start, plan, Error(*error) if error else None)
  return '\n'.join([asked, *(f'{agent} {text}' for agent, text in said)])


def label(task: Mapping[str, Any]) -> str:
  """Returns what is to be answered."""
  error = task['error']
  return f'{error[0]} {error[1]}' if error else NONE


def _solve(task: dict[str, Any]) -> tuple[dict, tuple[str, ...]]:
  return task, (label(task),)


class InjectedErrorsEnv:
  """Environment of one turn that compares an answer with the label.

  The score is 1 if agent and mistake are right, or "none" is. If one of the two
  is, the reward is `partial`. See `HostEnv`.
  """

  def __init__(self, partial: float, unseen: Sequence[tuple[str, ...]]):
    self._partial, self._unseen = partial, unseen

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    del seed  # nothing is random
    self._label = label(task).split()
    return log(task)

  def step(self, message: str) -> Step:
    said = spoken(message).lower().split()
    unseen = float(tuple(self._label) in self._unseen)
    legal = said == [NONE] or tuple(said) in KINDS
    agent = legal and said[0] == self._label[0]
    mode = legal and said[-1] == self._label[-1]
    right = float(agent and mode)
    reward = right or self._partial * (agent or mode)
    info = {
      'agent_right': float(agent),
      'mode_right': float(mode),
      'unseen': unseen,
    }
    return Step('', reward, True, right, invalid=not legal, info=info)

  def close(self) -> None:
    pass
