"""Norms: seats harvest a pool, fine one another, and vote on what to take.

A round has two asks. First every seat says what it takes, before it knows what
the others say. Then it hears what one other seat took, says whom it fines (a
name, or - for nobody) and proposes the most that a seat should take. This is
what one of four reads, and what it says:

  pool 30, take?                           3
  you took 3, bob 4, pool 20, fine norm?   bob 2
  you took 3, fined 3, own -1
  cat took 2, owns 2
  pool 31, norm 2, take?                   2

The norm is the lower median of what was proposed, and binds nobody. Each round
tells a seat what it owns, and what another one took and owns: it may imitate
who does well. What is left of the pool grows back:

  left = pool - sum_s took_s;   the match is over if left < capacity // 8
  pool <- min(capacity, left + growth left (capacity - left) // capacity)
  own_s <- own_s + took_s - PRICE (fines by s) - FINE (fines of s)

No text says how the pool grows, what a fine costs, or what is rewarded:

  reward of a turn = what it changed of own_s / (level rounds)

`level` is the most that all seats can take in every round for ever, so that a
seat which takes just that is worth 1 in a match. Imitation of those who do well
and costly punishment by a norm that is voted on come from arXiv 2510.14401; all
constants here are ours.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from agentrl import domain
from agentrl.env import task_sampling
from agentrl.env.base import HostTask
from agentrl.env.seats import RefereedEnv, Ruling
from agentrl.env.worlds import commons
from agentrl.text.tool_calls.base import spoken

NAMES = commons.NAMES
COLUMNS = ('took', 'obeyed', 'fined', 'welfare', 'survived')
PRICE, FINE = 1, 3  # what a fine costs who imposes it, and who gets it
NOBODY = '-'
RICH, SCARCE = (80, 120), (40, 60)  # least and most growth, in percent
TAKES = (
  'You and {others} others harvest a pool, all at once, that grows back from'
  ' what is left. Say a number from 0 to {most}: how much you take.'
)
FINES = ' Then name one whom you fine, or say - for none.'
VOTES = ' Then say the most that each should take.'
BOTH = ' Then name one whom you fine, or -, and the most that each should take.'


class State(NamedTuple):
  """A society in a round; tuples are [S], seat by seat."""

  round: int
  pool: int  # 0: it has collapsed
  norm: int  # the most that a seat should take
  own: tuple[int, ...]  # catches less prices and fines
  took: tuple[int, ...]  # in the last harvest
  fined: tuple[int, ...]  # how often, for it


@dataclasses.dataclass(frozen=True)
class Norms:
  """A task is a pool, its growth, and whom each seat hears of in each round."""

  players: Annotated[int, domain.Whole(2, len(NAMES))] = 4  # seats
  most: Annotated[int, domain.Whole(3, 9)] = 4  # that a seat takes in a round
  rounds: Annotated[int, domain.Whole(2, 99)] = 6  # of a match, at most
  scarce: bool = False  # pools begin smaller and grow more slowly
  punish: bool = True  # a seat hears what another took, and may fine
  social: bool = True  # a seat hears what another took and owns
  vote: bool = True  # on the norm
  selfish: Annotated[int, domain.Whole(0, most='players')] = (
    0  # seats that take the most in demonstrations
  )
  teach: bool = False  # the system text states what can be said

  columns: ClassVar[tuple[str, ...]] = COLUMNS
  worker: ClassVar[str] = 'thread'

  def __post_init__(self):
    domain.check_fields(self)

  @property
  def seat_names(self) -> tuple[str, ...]:
    return NAMES[: self.players]

  @property
  def judges(self) -> bool:
    """Whether a round has its second ask."""
    return self.punish or self.vote

  @property
  def system(self) -> str:
    if not self.teach:
      return ''
    then = {(True, False): FINES, (False, True): VOTES, (True, True): BOTH}
    text = TAKES.format(others=self.players - 1, most=self.most)
    return text + then.get((self.punish, self.vote), '')

  def seat_system(self, seat: str) -> str:
    return f'You are {seat}.' if self.teach else ''

  def name(self) -> str:
    return task_sampling.name('norms', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Yields tasks, see `EnvFamily`, demonstrated as `script` says."""
    return task_sampling.drawn(
      self._draw, lambda task: (task, script(self, task)), split, count, seed
    )

  def describe(self, task: Mapping[str, Any]) -> str:
    """Returns what every seat sees first."""
    return f'pool {task["pool"]}, take?'

  def env(self) -> RefereedEnv:
    return RefereedEnv(NormsReferee(self), self.seat_names)

  def _draw(self, rng: np.random.Generator) -> dict[str, Any] | None:
    n = self.players
    capacity = int(rng.integers(8 * n, 12 * n + 1))
    low, high = (4, 6) if self.scarce else (6, 9)  # twelfths of the capacity
    pool = int(rng.integers(capacity * low // 12, capacity * high // 12 + 1))
    slow, fast = SCARCE if self.scarce else RICH
    growth = int(rng.integers(slow, fast + 1))
    task = {'capacity': capacity, 'pool': pool, 'growth': growth}
    # By round, how many seats further on the one is of whom a seat hears.
    for heard in ('watched', 'model'):
      task[heard] = rng.integers(1, n, self.rounds).tolist()
    best = level(task, n, self.most)
    return task if (best == 1 if self.scarce else best > 1) else None


def least(task: Mapping[str, Any]) -> int:
  """Returns what must be left of a pool, else it collapses."""
  return task['capacity'] // 8


def grown(task: Mapping[str, Any], left: int) -> int:
  """Returns the pool that grows from what is left."""
  capacity = task['capacity']
  more = task['growth'] * left * (capacity - left) // (100 * capacity)
  return min(capacity, left + more)


def level(task: Mapping[str, Any], seats: int, most: int) -> int:
  """Computes the most that all can take in every round for ever.

  Pools are integers, so that one which comes again goes round for ever.
  """

  def lasts(take: int) -> bool:
    pool, seen = task['pool'], set[int]()
    while pool not in seen:
      seen.add(pool)
      left = pool - take * seats
      if left < least(task):
        return False
      pool = grown(task, left)
    return True

  return max(take for take in range(most + 1) if lasts(take))


def begin(rules: Norms, task: Mapping[str, Any]) -> State:
  """Begins a match: seats own nothing, and the norm allows the most."""
  nothing = (0,) * rules.players
  return State(0, task['pool'], rules.most, nothing, nothing, nothing)


def harvest(
  task: Mapping[str, Any], state: State, asked: Sequence[int]
) -> State:
  """Deals out what was asked for, [S]; too little left collapses to 0."""
  got = commons.dealt(asked, state.pool, state.round)
  left = state.pool - sum(got)
  return state._replace(
    pool=left if left >= least(task) else 0,
    own=tuple(a + b for a, b in zip(state.own, got, strict=True)),
    took=tuple(got),
    fined=(0,) * len(got),
  )


def judge(
  rules: Norms,
  state: State,
  fines: Sequence[int | None],
  proposals: Sequence[int | None],
) -> State:
  """Imposes fines and counts votes.

  Args:
    fines: [S] the seat that each fines; None: nobody
    proposals: [S]; None abstains
  """
  norm, fined = state.norm, (0,) * len(fines)
  own = state.own
  if rules.punish:
    fined = tuple(fines.count(i) for i in range(len(fines)))
    own = tuple(
      x - PRICE * (fines[i] is not None) - FINE * fined[i]
      for i, x in enumerate(own)
    )
  voted = sorted(x for x in proposals if x is not None)
  if rules.vote and voted:
    norm = voted[(len(voted) - 1) // 2]
  return state._replace(own=own, fined=fined, norm=norm)


def regrow(task: Mapping[str, Any], state: State) -> State:
  """Begins the next round."""
  return state._replace(round=state.round + 1, pool=grown(task, state.pool))


def heard_of(
  task: Mapping[str, Any], heard: str, t: int, seat: int, seats: int
) -> int:
  """Returns the seat of which one hears in round t.

  Args:
    heard: 'watched', after the harvest of t, or 'model', before it
  """
  return (seat + task[heard][t]) % seats


def script(rules: Norms, task: Mapping[str, Any]) -> tuple[str, ...]:
  """Writes a demonstration: what all seats say in a match.

  A seat takes and proposes the level, and fines whom it hears to have broken
  the norm. `rules.selfish` seats, from pool mod S on, take and propose the most
  and fine nobody. Without them every seat is worth 1.
  """
  n, best = rules.players, level(task, rules.players, rules.most)
  greedy = {(task['pool'] + i) % n for i in range(rules.selfish)}
  takes = [rules.most if i in greedy else best for i in range(n)]
  state, said = begin(rules, task), list[str]()
  while True:
    said += map(str, takes)
    state = harvest(task, state, takes)
    if state.pool and rules.judges:
      fines = list[int | None]()
      for i in range(n):
        other = heard_of(task, 'watched', state.round, i, n)
        broke = i not in greedy and state.took[other] > state.norm
        fines.append(other if rules.punish and broke else None)
      for i, fined in enumerate(fines):
        name = NOBODY if fined is None else NAMES[fined]
        told = [name] * rules.punish + [str(takes[i])] * rules.vote
        said.append(' '.join(told))
      state = judge(rules, state, fines, takes)
    if not state.pool or state.round + 1 == rules.rounds:
      return tuple(said)
    state = regrow(task, state)


def judgements(rules: Norms, seat: int) -> dict[str, tuple]:
  """Lists what a seat can say after a harvest: text -> (fines, proposes)."""
  names: dict[str, int | None] = {NOBODY: None}
  names |= {x: i for i, x in enumerate(rules.seat_names) if i != seat}
  norms: dict[str, int | None] = {str(x): x for x in range(rules.most + 1)}
  names = names if rules.punish else {'': None}
  norms = norms if rules.vote else {'': None}
  return {
    f'{name} {norm}'.strip(): (names[name], norms[norm])
    for name in names
    for norm in norms
  }


class NormsReferee:
  """Asks all seats to harvest, then all to judge; see `Referee`."""

  def __init__(self, rules: Norms):
    self._rules, self._seats = rules, rules.seat_names
    self._takes = {str(x): x for x in range(rules.most + 1)}
    seats = range(rules.players)
    self._judgements = [judgements(rules, seat) for seat in seats]

  def reset(self, task: Mapping[str, Any], seed: int) -> Ruling:
    del seed  # nothing is random
    self._task, self._state = task, begin(self._rules, task)
    best = level(task, len(self._seats), self._rules.most)
    self._unit = 1 / (best * self._rules.rounds)
    self._judging, self._heard = False, list[Any]()
    return self._ask()

  def step(self, message: str) -> Ruling:
    said, seat = spoken(message).strip(), len(self._heard)
    moves: Mapping[str, Any] = self._takes
    unclear: Any = 0  # it takes nothing
    if self._judging:
      moves, unclear = self._judgements[seat], (None, None)
    self._heard.append(moves.get(said, unclear))
    invalid = said not in moves
    if len(self._heard) < len(self._seats):
      return self._ask()._replace(invalid=invalid)
    heard, self._heard = self._heard, []
    ruling = self._judged(heard) if self._judging else self._harvested(heard)
    return ruling._replace(invalid=invalid)

  def close(self) -> None:
    """Closes nothing: nothing is held."""

  def _harvested(self, asked: list[int]) -> Ruling:
    before = self._state
    self._state = after = harvest(self._task, before, asked)
    voted = self._rules.vote and before.round > 0
    info = [
      {'took': x, 'obeyed': voted and x <= before.norm} for x in after.took
    ]
    if after.pool and self._rules.judges:
      self._judging = True
      return self._paid(self._ask(), before, info)
    return self._next(before, info)

  def _judged(self, heard: list[tuple]) -> Ruling:
    before, self._judging = self._state, False
    fines, proposals = zip(*heard, strict=True)
    self._state = judge(self._rules, before, fines, proposals)
    info = [{'fined': x is not None} for x in fines]
    return self._next(before, info)

  def _next(self, before: State, info: list[dict]) -> Ruling:
    """Begins the next round, or ends the match."""
    state, rounds = self._state, self._rules.rounds
    if state.pool and state.round + 1 < rounds:
      self._state = regrow(self._task, state)
      return self._paid(self._ask(), before, info)
    worth = [x * self._unit for x in state.own]
    lasted = state.round + bool(state.pool)
    last = {'welfare': sum(worth) / len(worth), 'survived': lasted / rounds}
    score = [min(max(x, 0.0), 1.0) for x in worth]
    over = Ruling('', score=dict(zip(self._seats, score, strict=True)))
    return self._paid(over, before, [x | last for x in info])

  def _paid(self, ruling: Ruling, before: State, info: list[dict]) -> Ruling:
    """Adds to a ruling what each seat has earned, and its columns."""
    owned = zip(self._state.own, before.own, strict=True)
    earned = [(a - b) * self._unit for a, b in owned]
    return ruling._replace(
      reward=dict(zip(self._seats, earned, strict=True)),
      info=dict(zip(self._seats, info, strict=True)),
    )

  def _ask(self) -> Ruling:
    seat = len(self._heard)
    told = self._caught(seat) if self._judging else self._opening(seat)
    return Ruling(self._seats[seat], told)

  def _opening(self, seat: int) -> str:
    """Writes what a seat reads before it harvests."""
    state, rules = self._state, self._rules
    if not state.round:
      return rules.describe(self._task)
    lost = FINE * state.fined[seat]
    fined = f', fined {lost}' if lost else ''
    lines = [f'you took {state.took[seat]}{fined}, own {state.own[seat]}']
    if rules.social:
      i = self._other('model', seat)
      lines.append(f'{NAMES[i]} took {state.took[i]}, owns {state.own[i]}')
    norm = f', norm {state.norm}' if rules.vote else ''
    return '\n'.join([*lines, f'pool {state.pool}{norm}, take?'])

  def _caught(self, seat: int) -> str:
    """Writes what a seat reads before it judges."""
    state, rules = self._state, self._rules
    told = [f'you took {state.took[seat]}']
    if rules.punish:
      i = self._other('watched', seat)
      told.append(f'{NAMES[i]} {state.took[i]}')
    asked = ['fine'] * rules.punish + ['norm'] * rules.vote
    return ', '.join([*told, f'pool {state.pool}', ' '.join(asked)]) + '?'

  def _other(self, heard: str, seat: int) -> int:
    t = self._state.round
    return heard_of(self._task, heard, t, seat, len(self._seats))
