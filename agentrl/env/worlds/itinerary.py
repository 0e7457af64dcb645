"""Itineraries: a place for each day, under rules that can be checked.

A small generated stand-in for TravelPlanner (arXiv 2402.01622). Texts are short
enough for a model whose tokens are characters:

  3 days, budget 14, reach 4, see park zoo
  A park 5 @2
  B zoo 3 @7
  C zoo 4 @4
  D cafe 2 @5
  E park 9 @0
  A C D

A place has a kind, a price and a position on a line. A plan breaks

  distinct  if it names a place twice
  budget    if its prices sum to more than the budget
  kinds     if it has no place of a kind that is to be seen
  reach     if two days in a row are further apart than the reach
"""

import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from agentrl import domain
from agentrl.env import task_sampling
from agentrl.env.base import HostTask, Step
from agentrl.text.tool_calls.base import spoken

NAMES = 'ABCDEFGH'
KINDS = ('park', 'zoo', 'cafe', 'bath', 'fort')
RULES = ('distinct', 'budget', 'kinds', 'reach')
LOST = 'Name a place for each day.'
NOTHING = 'none'
TEACH = (
  'Plan one place for each day, such as "A C B", of those that are listed with'
  ' their kind, price and position. Name no place twice, spend no more than the'
  ' budget, see the kinds that are asked for, and go no further than the reach'
  ' from one day to the next.'
)
_DEAREST, _FARTHEST = 9, 9  # of a price and of a position
_EASY = 0.2  # share of all plans that break nothing, at most

Plan = tuple[int, ...]  # of places, by their numbers


@dataclasses.dataclass(frozen=True)
class Itinerary:
  """A task is a list of places, and what a plan must keep to."""

  places: Annotated[int, domain.Whole(3, len(NAMES))] = 6  # to choose from
  days: Annotated[int, domain.Whole(2, 5, most='places')] = 3  # of a plan
  kinds: Annotated[int, domain.Whole(2, len(KINDS))] = 3  # that there are
  wanted: Annotated[int, domain.Whole(0, len(KINDS), most='kinds')] = (
    2  # kinds that are to be seen, at most as many as the seed plan has
  )
  slack: domain.Count0 = 1  # most that a seed plan leaves of the budget
  tries: domain.Count = 1  # plans, of which the last counts
  feedback: bool = False  # the text states which rules the plan will break
  flawed: domain.Rate = (
    0.0  # share of the training tasks that state broken rules, if any do
  )
  demonstrate: Annotated[str, domain.OneOf('best', 'refined')] = (
    'best'  # the best plan, or a random one that is broken and then the best
  )
  teach: bool = False  # the system text states the rules

  columns: ClassVar[tuple[str, ...]] = (
    *RULES,
    'pass_rate',
    'mistake',
    'progress',
  )
  worker: ClassVar[str] = 'thread'

  def __post_init__(self):
    domain.check_fields(self)
    if self.flawed and not self.feedback:
      raise ValueError(
        f'flawed must be 0.0 without feedback, got {self.flawed}; or set'
        ' feedback=True'
      )
    if self.demonstrate == 'refined' and self.tries < 2:
      raise ValueError(
        f"tries must be at least 2 with demonstrate='refined', got {self.tries}"
      )

  @property
  def system(self) -> str:
    return TEACH if self.teach else ''

  def name(self) -> str:
    return task_sampling.name('itinerary', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Yields tasks demonstrated by the cheapest valid plan; see `EnvFamily`.

    A training task that states broken rules is demonstrated by a plan that
    breaks exactly these: a careless planner's attempt with its feedback.
    """
    flawed = self.flawed if split == 'train' else 0.0
    return task_sampling.drawn(
      lambda rng: self._draw(rng, flawed), self._solve, split, count, seed
    )

  def expert_value(self, task: Mapping[str, Any]) -> float:
    """Returns 1, the value of the optimal policy, which tries all plans."""
    del task
    return 1.0

  def random_value(self, task: Mapping[str, Any]) -> float:
    """Returns the exact score of a uniformly drawn plan."""
    plans = list(all_plans(task))
    right = sum(broken(task, x) == tuple(task['broken']) for x in plans)
    return right / len(plans)

  def env(self) -> 'ItineraryEnv':
    return ItineraryEnv(self)

  def _draw(self, rng: np.random.Generator, flawed: float) -> dict | None:
    """Draws places around a seed plan that satisfies the derived rules."""
    kind = rng.integers(self.kinds, size=self.places)
    price = rng.integers(1, _DEAREST + 1, self.places)
    position = rng.integers(_FARTHEST + 1, size=self.places)
    plan = rng.permutation(self.places)[: self.days]
    seen = rng.permutation(sorted(set(kind[plan].tolist())))
    task = {
      'kind': [KINDS[k] for k in kind],
      'price': price.tolist(),
      'position': position.tolist(),
      'days': self.days,
      'budget': int(price[plan].sum() + rng.integers(self.slack + 1)),
      'reach': int(np.abs(np.diff(position[plan])).max()),
      'see': sorted(KINDS[k] for k in seen[: self.wanted]),
      'broken': [],
    }
    if self.random_value(task) > _EASY:
      return None
    if rng.random() < flawed:
      task['plan'] = rng.integers(self.places, size=self.days).tolist()
      task['broken'] = list(broken(task, task['plan']))
    return task

  def _solve(self, task: dict[str, Any]) -> tuple[dict, tuple[str, ...]]:
    plan = task.pop('plan', None)
    if task['broken']:
      return task, (write(plan),)
    best = write(cheapest(task))
    if self.demonstrate == 'best':
      return task, (best,)
    # By the task alone: in one split it has the same one everywhere.
    rng = np.random.default_rng(int(task_sampling.key(task), 16))
    wrong = [x for x in all_plans(task) if broken(task, x)]
    return task, (write(wrong[rng.integers(len(wrong))]), best)


def all_plans(task: Mapping[str, Any]) -> Iterator[Plan]:
  """Yields every sequence of places, with repetitions."""
  places = range(len(task['price']))
  return itertools.product(places, repeat=task['days'])


def cost(task: Mapping[str, Any], plan: Sequence[int]) -> int:
  """Sums the prices, one for each day."""
  return sum(task['price'][i] for i in plan)


def broken(task: Mapping[str, Any], plan: Sequence[int]) -> tuple[str, ...]:
  """Returns the rules that a plan breaks, in the order of `RULES`."""
  at = [task['position'][i] for i in plan]
  met = {
    'distinct': len(set(plan)) == len(plan),
    'budget': cost(task, plan) <= task['budget'],
    'kinds': set(task['see']) <= {task['kind'][i] for i in plan},
    'reach': all(
      abs(a - b) <= task['reach'] for a, b in itertools.pairwise(at)
    ),
  }
  return tuple(rule for rule in RULES if not met[rule])


def cheapest(task: Mapping[str, Any]) -> Plan:
  """Returns the expert's plan: the first valid plan of least cost."""
  fit = (plan for plan in all_plans(task) if not broken(task, plan))
  return min(fit, key=lambda plan: (cost(task, plan), plan))


def write(plan: Sequence[int]) -> str:
  """Renders a plan as a message."""
  return ' '.join(NAMES[i] for i in plan)


def read(message: str, task: Mapping[str, Any]) -> Plan | None:
  """Parses a plan; None unless it names a place for each day."""
  names = re.findall(r'\b[A-Z]\b', spoken(message))
  listed = NAMES[: len(task['price'])]
  if len(names) != task['days'] or not set(names) <= set(listed):
    return None
  return tuple(map(listed.index, names))


def describe(task: Mapping[str, Any], feedback: bool) -> str:
  """Renders the first observation."""
  see = f', see {" ".join(task["see"])}' if task['see'] else ''
  rows = zip(NAMES, task['kind'], task['price'], task['position'], strict=False)
  lines = [
    f'{task["days"]} days, budget {task["budget"]}, reach {task["reach"]}{see}',
    *(f'{name} {kind} {price} @{at}' for name, kind, price, at in rows),
  ]
  if feedback:
    lines.append(faults(task['broken']))
  return '\n'.join(lines)


def faults(rules: Sequence[str]) -> str:
  """Renders the feedback on a plan."""
  return f'broken: {" ".join(rules) or NOTHING}'


class ItineraryEnv:
  """Allows another try while a plan breaks other rules than stated.

  Every message is a try. Score and reward are 1 if the last plan breaks exactly
  the rules that the task states; a task states none unless the family is
  `flawed`. Columns are 1 for a rule that is kept, `pass_rate` is their mean and
  `progress` its increase; `mistake` is 1 for a plan of score 0. See `HostEnv`.
  """

  def __init__(self, family: Itinerary):
    self._family = family

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    del seed  # nothing is random
    self._task, self._tries, self._rate = task, 0, 0.0
    return describe(task, self._family.feedback)

  def step(self, message: str) -> Step:
    self._tries += 1
    plan = read(message, self._task)
    last = self._tries == self._family.tries
    if plan is None:
      info = dict.fromkeys(self._family.columns, 0.0) | {'mistake': 1.0}
      return Step('' if last else LOST, done=last, invalid=True, info=info)
    rules = broken(self._task, plan)
    score = float(rules == tuple(self._task['broken']))
    rate = 1 - len(rules) / len(RULES)
    info = {rule: float(rule not in rules) for rule in RULES}
    info |= {'pass_rate': rate, 'mistake': 1 - score}
    info['progress'] = rate - self._rate
    self._rate = rate
    done = last or score == 1
    return Step('' if done else faults(rules), score, done, score, info=info)

  def close(self) -> None:
    pass
