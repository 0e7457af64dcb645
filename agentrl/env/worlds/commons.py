"""Commons: seats harvest a pool that grows back from what they leave.

In every round each seat says how much it takes, before it knows what the others
say, and is told afterwards what everyone got:

  round 1 of 4, pool 12 of 15, x2        3
  you 3, others 3 2
  round 2 of 4, pool 8 of 15, x1         2

What is left is multiplied by the round's growth, up to the capacity:

  pool ← min(capacity, growth_t (pool − Σ_s took_s))

If seats ask for more than there is, it is dealt out one by one, beginning with
another seat each round, to those who want more. The pool ends the match when it
is empty. Together the seats do best to leave much of it until the end (`best`);
for each alone it is better to take what it can (`greedy`), since what it leaves
the others take.

  reward of a turn = took · S / best(task)

so that a seat has earned 1 in a match if it got an even share of the best.
"""

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from agentrl import domain
from agentrl.env import task_sampling
from agentrl.env.base import HostTask
from agentrl.env.seats import RefereedEnv, Ruling
from agentrl.text.tool_calls.base import spoken

GROWTHS = (1, 2, 3)
NAMES = ('ann', 'bob', 'cat', 'dan', 'eve', 'fay')
RULES = (
  'You and {others} others harvest a pool in {rounds} rounds, all at once. Say'
  ' a number from 0 to {most}: how much you take. What you leave is multiplied'
  ' by the number behind x, up to the capacity of the pool.'
)


@dataclasses.dataclass(frozen=True)
class Commons:
  """A task is a pool, its capacity, and its growth in each round."""

  players: Annotated[int, domain.Whole(2, len(NAMES))] = 4  # seats
  most: Annotated[int, domain.Whole(1, 9)] = 3  # that a seat takes in a round
  rounds: Annotated[int, domain.Whole(2, 9)] = 4  # of a match, at most
  teach: bool = False  # the system text states the rules

  columns: ClassVar[tuple[str, ...]] = ('took', 'welfare')
  worker: ClassVar[str] = 'thread'

  def __post_init__(self):
    domain.check_fields(self)

  @property
  def seat_names(self) -> tuple[str, ...]:
    return NAMES[: self.players]

  @property
  def system(self) -> str:
    others, most, rounds = self.players - 1, self.most, self.rounds
    text = RULES.format(others=others, most=most, rounds=rounds)
    return text if self.teach else ''

  def seat_system(self, seat: str) -> str:
    return f'You are {seat}.' if self.teach else ''

  def name(self) -> str:
    return task_sampling.name('commons', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Yields tasks demonstrated by the best plan; see `EnvFamily`."""
    return task_sampling.drawn(self._draw, self._solve, split, count, seed)

  def describe(self, task: Mapping[str, Any]) -> str:
    """Returns what every seat sees first."""
    return shown(task, 0, task['pool'])

  def env(self) -> RefereedEnv:
    return RefereedEnv(
      CommonsReferee(self.seat_names, self.most), self.seat_names
    )

  def _draw(self, rng: np.random.Generator) -> dict[str, Any]:
    full = self.players * self.most
    capacity = int(rng.integers(full, 2 * full + 1))
    pool = int(rng.integers(full // 2 + 1, capacity + 1))
    growth = rng.choice(GROWTHS, self.rounds).tolist()
    return {'capacity': capacity, 'pool': pool, 'growth': growth}

  def _solve(
    self, task: dict[str, Any]
  ) -> tuple[dict[str, Any], tuple[str, ...]]:
    said: list[str] = []
    for t, total in enumerate(plan(task, self.players, self.most)):
      share, more = divmod(total, self.players)
      said += [
        str(share + ((i - t) % self.players < more))
        for i in range(self.players)
      ]
    return task, tuple(said)


def grown(task: Mapping[str, Any], t: int, left: int) -> int:
  """Returns the pool behind round t, of which so much was left."""
  return min(task['capacity'], task['growth'][t] * left)


def plan(task: Mapping[str, Any], seats: int, most: int) -> list[int]:
  """Computes how much all take together in each round, where they do best.

    W_t(p) = max_h h + W_{t+1}(grown(p − h)),   0 <= h <= min(p, seats · most)

  It knows the growth of all rounds. Of equal plans it takes less at first. It
  ends with the pool.
  """

  @functools.cache
  def best_from(t: int, pool: int) -> tuple[int, int]:
    """Returns the most from round t on, and what is taken in it."""
    if t == len(task['growth']):
      return 0, 0
    takes = range(min(pool, seats * most) + 1)
    return max(
      (h + best_from(t + 1, grown(task, t, pool - h))[0], -h) for h in takes
    )

  out, pool = list[int](), task['pool']
  for t in range(len(task['growth'])):
    if not pool:
      break
    out.append(-best_from(t, pool)[1])
    pool = grown(task, t, pool - out[-1])
  return out


def best(task: Mapping[str, Any], seats: int, most: int) -> int:
  """Computes the most that all get together, knowing every growth."""
  return sum(plan(task, seats, most))


def dealt(asked: Sequence[int], pool: int, t: int) -> list[int]:
  """Returns what each seat gets in round t: what it asked, while there is any.

  One by one, beginning with seat t mod S.
  """
  seats = len(asked)
  got = [0] * seats
  while pool and any(g < a for g, a in zip(got, asked, strict=True)):
    for i in ((t + j) % seats for j in range(seats)):
      if pool and got[i] < asked[i]:
        got[i], pool = got[i] + 1, pool - 1
  return got


def harvested(
  task: Mapping[str, Any], asked: Sequence[Sequence[int]]
) -> list[int]:
  """Computes what each seat gets in a match, asking asked[t][s] in round t."""
  pool, total = task['pool'], [0] * len(asked[0])
  for t, each in enumerate(asked):
    got = dealt(each, pool, t)
    total = [a + b for a, b in zip(total, got, strict=True)]
    pool = grown(task, t, pool - sum(got))
  return total


def greedy(task: Mapping[str, Any], seats: int, most: int) -> list[int]:
  """Computes what each seat gets if all always ask for the most."""
  return harvested(task, [[most] * seats] * len(task['growth']))


def shown(task: Mapping[str, Any], t: int, pool: int) -> str:
  """Writes what a seat sees of a round."""
  growth = task['growth']
  return (
    f'round {t + 1} of {len(growth)}, pool {pool} of {task["capacity"]},'
    f' x{growth[t]}'
  )


class CommonsReferee:
  """Asks all seats round by round; see `Referee`."""

  def __init__(self, seats: Sequence[str], most: int):
    self._seats, self._most = tuple(seats), most

  def reset(self, task: Mapping[str, Any], seed: int) -> Ruling:
    del seed  # nothing is random
    self._task, self._round, self._pool = task, 0, task['pool']
    self._best = best(task, len(self._seats), self._most)
    self._total = [0] * len(self._seats)
    self._asked: list[int] = []
    self._got: list[int] = []  # in the round before
    return Ruling(self._seats[0], self._told(0))

  def step(self, message: str) -> Ruling:
    said = spoken(message).strip()
    clear = said in map(str, range(self._most + 1))
    self._asked.append(int(said) if clear else 0)
    if len(self._asked) < len(self._seats):
      seat = len(self._asked)
      return Ruling(self._seats[seat], self._told(seat), invalid=not clear)
    return self._harvest()._replace(invalid=not clear)

  def close(self) -> None:
    """Closes nothing: nothing is held."""

  def _harvest(self) -> Ruling:
    """Deals out what was asked for, and begins the next round or ends."""
    got = dealt(self._asked, self._pool, self._round)
    self._pool = grown(self._task, self._round, self._pool - sum(got))
    self._total = [a + b for a, b in zip(self._total, got, strict=True)]
    self._round, self._asked, self._got = self._round + 1, [], got
    unit = len(self._seats) / self._best
    numbers = dict(zip(self._seats, got, strict=True))
    reward = {seat: n * unit for seat, n in numbers.items()}
    info = {seat: {'took': float(n)} for seat, n in numbers.items()}
    if self._pool and self._round < len(self._task['growth']):
      text = self._told(0)
      return Ruling(self._seats[0], text, reward=reward, info=info)
    welfare = sum(self._total) / self._best
    return Ruling(
      '',
      reward=reward,
      score={
        seat: min(n * unit, 1.0)
        for seat, n in zip(self._seats, self._total, strict=True)
      },
      info={seat: {**x, 'welfare': welfare} for seat, x in info.items()},
    )

  def _told(self, seat: int) -> str:
    now = shown(self._task, self._round, self._pool)
    if not self._got:
      return now
    others = [n for i, n in enumerate(self._got) if i != seat]
    return f'you {self._got[seat]}, others {" ".join(map(str, others))}\n{now}'
