"""Negotiation: two seats divide a pool of things that they value differently.

What things are worth to a seat is known to it alone, and all of them together
are worth `TOTAL` to either. The first seat reads its own values and proposes
what it takes; the second one accepts, rejects, which ends the talks without a
deal, or says what it would take itself:

  pool 2 1 3              pool 2 1 3
  worth 1 5 1             worth 2 0 2
  propose 0 1 3           other: propose 0 1 3
                          propose 2 0 2
  other: propose 2 0 2
  accept

Motives are mixed: both get nothing without a deal, most deals leave both better
off than an even split of every thing, and each would rather have it all.

  reward_s = Σ_i took_si worth_si / TOTAL,   0 without a deal

The value of a deal to the two together, and the Nash bargain, follow from a
task (`truth`). If it were known what things are worth to the other, the first
seat could take all that it values and the second would have to accept: that is
the subgame-perfect equilibrium, and what a greedy pair does (`Truth.greedy`).
"""

import dataclasses
import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from agentrl import domain
from agentrl.env import task_sampling
from agentrl.env.base import HostTask
from agentrl.env.seats import RefereedEnv, Ruling
from agentrl.text.tool_calls.base import spoken

TOTAL = 10  # what the pool is worth to either seat
LARGEST = 3  # of one kind of thing
SEATS = ('first', 'second')
ACCEPT, REJECT, UNCLEAR = 'accept', 'reject', '?'
RULES = (
  'Two of you divide a pool of things. You know what each kind is worth to you,'
  ' not what it is worth to the other. Say "propose" and how many of each kind'
  ' you would take, "accept" what the other has proposed, or "reject" to end'
  ' the talks. You have {rounds} messages each; without a deal nobody gets any.'
)
_PROPOSAL = re.compile(r'propose((?: [0-9])+)')


class Truth(NamedTuple):
  """What a task allows, in shares of TOTAL."""

  welfare: float  # the most that both get together
  nash: tuple[float, float]  # where the product of what they get is largest
  take: tuple[int, ...]  # what the first seat takes there
  greedy: tuple[float, float]  # the first takes all that it values


@dataclasses.dataclass(frozen=True)
class Negotiation:
  """A task is a pool, and what its things are worth to each seat."""

  kinds: Annotated[int, domain.Whole(2, 4)] = 3  # of things in a pool
  rounds: Annotated[int, domain.Whole(1, 9)] = 3  # messages of a seat
  teach: bool = False  # the system text states the rules

  columns: ClassVar[tuple[str, ...]] = ('agreed', 'welfare')
  seat_names: ClassVar[tuple[str, ...]] = SEATS
  worker: ClassVar[str] = 'thread'

  def __post_init__(self):
    domain.check_fields(self)

  @property
  def system(self) -> str:
    return RULES.format(rounds=self.rounds) if self.teach else ''

  def seat_system(self, seat: str) -> str:
    return f'You speak {seat}.' if self.teach else ''

  def name(self) -> str:
    return task_sampling.name('negotiation', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Yields tasks demonstrated by the Nash bargain; see `EnvFamily`."""
    return task_sampling.drawn(self._draw, _solve, split, count, seed)

  def describe(self, task: Mapping[str, Any]) -> str:
    """Returns what both seats see: the pool."""
    return f'pool {_listed(task["pool"])}'

  def env(self) -> RefereedEnv:
    return RefereedEnv(NegotiationReferee(self.rounds), SEATS)

  def _draw(self, rng: np.random.Generator) -> dict[str, Any] | None:
    pool = rng.integers(1, LARGEST + 1, self.kinds).tolist()
    worths = _worths(tuple(pool))
    if len(worths) < 2:
      return None
    worth = [list(worths[i]) for i in rng.integers(len(worths), size=2)]
    task = {'pool': pool, 'worth': worth}
    # Else there is nothing to gain by talking: whatever one gets the other
    # loses.
    return task if truth(task).welfare > 1 else None


@functools.cache
def _worths(pool: tuple[int, ...]) -> list[tuple[int, ...]]:
  """Lists what things may be worth, so that all are worth TOTAL together."""
  each = [range(TOTAL // n + 1) for n in pool]
  return [
    worth for worth in itertools.product(*each) if _value(worth, pool) == TOTAL
  ]


def _solve(task: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
  return task, (propose(truth(task).take), ACCEPT)


def truth(task: Mapping[str, Any]) -> Truth:
  """Computes what a task allows, over all ways to divide its pool."""
  pool, (first, second) = task['pool'], task['worth']
  best = sum(n * max(a, b) for n, a, b in zip(pool, first, second, strict=True))
  deals = {
    take: (_value(first, take), _value(second, _rest(pool, take)))
    for take in itertools.product(*(range(n + 1) for n in pool))
  }
  # Of equal products the one that gives the two most, then the first one.
  take = max(deals, key=lambda x: (deals[x][0] * deals[x][1], sum(deals[x])))
  all_valued = tuple(n * (a > 0) for n, a in zip(pool, first, strict=True))
  return Truth(
    welfare=best / TOTAL,
    nash=_shares(deals[take]),
    take=take,
    greedy=_shares(deals[all_valued]),
  )


def propose(take: Sequence[int]) -> str:
  """Writes a proposal: what its speaker would take."""
  return f'propose {_listed(take)}'


class NegotiationReferee:
  """Hears two seats in turn; see `Referee`."""

  def __init__(self, rounds: int):
    self._rounds = rounds

  def reset(self, task: Mapping[str, Any], seed: int) -> Ruling:
    del seed  # nothing is random
    self._task, self._heard = task, 0
    self._offer: tuple[int, ...] | None = None  # of the seat before: its own
    return Ruling(SEATS[0], self._opening(0))

  def step(self, message: str) -> Ruling:
    seat, said = self._heard % 2, spoken(message).strip()
    self._heard += 1
    take = self._proposed(said)
    if said == ACCEPT and self._offer is not None:
      return self._over(1 - seat, self._offer)
    clear = take is not None or said == REJECT
    if said == REJECT or self._heard == 2 * self._rounds:
      return self._over(seat, None, invalid=not clear)
    self._offer = take
    heard = f'other: {said if clear else UNCLEAR}'
    if self._heard == 1:  # the other has not seen anything yet
      heard = f'{self._opening(1)}\n{heard}'
    return Ruling(SEATS[1 - seat], heard, invalid=not clear)

  def close(self) -> None:
    """Closes nothing: nothing is held."""

  def _opening(self, seat: int) -> str:
    task = self._task
    return f'pool {_listed(task["pool"])}\nworth {_listed(task["worth"][seat])}'

  def _proposed(self, said: str) -> tuple[int, ...] | None:
    """Reads a proposal of no more than there is; None: it is not one."""
    pool, match = self._task['pool'], _PROPOSAL.fullmatch(said)
    take = tuple(map(int, match[1].split())) if match else ()
    fits = len(take) == len(pool)
    fits = fits and all(x <= n for x, n in zip(take, pool, strict=True))
    return take if fits else None

  def _over(
    self, seat: int, take: Sequence[int] | None, invalid: bool = False
  ) -> Ruling:
    """Ends the talks; `take` is what the seat gets, None without a deal."""
    share = dict.fromkeys(SEATS, 0.0)
    if take is not None:
      pool, worth = self._task['pool'], self._task['worth']
      of = {seat: take, 1 - seat: _rest(pool, take)}
      share = {SEATS[i]: _value(worth[i], of[i]) / TOTAL for i in (0, 1)}
    together = sum(share.values()) / truth(self._task).welfare
    info = {'agreed': float(take is not None), 'welfare': together}
    return Ruling(
      '',
      invalid=invalid,
      reward=share,
      score=share,
      info=dict.fromkeys(SEATS, info),
    )


def _value(worth: Sequence[int], take: Sequence[int]) -> int:
  return sum(w * n for w, n in zip(worth, take, strict=True))


def _rest(pool: Sequence[int], take: Sequence[int]) -> tuple[int, ...]:
  return tuple(n - x for n, x in zip(pool, take, strict=True))


def _shares(values: tuple[int, int]) -> tuple[float, float]:
  return values[0] / TOTAL, values[1] / TOTAL


def _listed(numbers: Sequence[int]) -> str:
  return ' '.join(map(str, numbers))
