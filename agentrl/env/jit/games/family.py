"""Families of games, as c.env names them."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar

import numpy as np

from agentrl.domain import OneOf, Real, Text, Tuple, Whole
from agentrl.env import base as env_base
from agentrl.env import splits
from agentrl.env.jit import base as jit_base
from agentrl.env.jit.games import (
  base,
  coopetition,
  kuhn,
  leduc,
  lines,
  problems,
  sums,
  workflow,
)

SELF, UNIFORM, OPTIMAL = '', 'random', 'optimal'
# To whoever forfeits, and to the others, where nobody gains by it.
NO_WINNER = -0.5, 0.0
_OPPONENT = "who has the other seats; '': the policy itself"
Opponent = Annotated[str, OneOf(SELF, UNIFORM), _OPPONENT]
Solved = Annotated[str, OneOf(SELF, UNIFORM, OPTIMAL), _OPPONENT]
Illegal = Annotated[
  str,
  OneOf(base.FORFEIT, base.RANDOM),
  'what a message that names no legal move does: it gives the match up, or a'
  ' random legal move takes its place',
]


@dataclasses.dataclass(frozen=True)
class GameFamily:
  """Settings of a game. Tasks are numbered matches, of every deal in turn.

  So deals come back in both splits: held-out tasks measure play, not transfer.
  Where the policy has all seats, attempts at a task are rows of one match, as
  many as there are seats, side by side.
  """

  opponent: Opponent = SELF
  illegal: Illegal = base.FORFEIT

  rules: ClassVar[base.Rules]
  players: ClassVar[Mapping[str, base.Player]] = {UNIFORM: base.uniform}
  columns: ClassVar[tuple[str, ...]] = (base.ILLEGAL,)
  worker: ClassVar[str] = env_base.JIT
  forfeits: ClassVar[tuple[float, float]] = (
    base.FORFEITED,
    base.WON_BY_FORFEIT,
  )

  @property
  def system(self) -> str:
    return self.rules.system

  def name(self) -> str:
    """Returns <game>-<hash of all settings>."""
    digest = splits.content_key(repr(self).encode())[:8]
    return f'{self.rules.title}-{digest}'

  def tasks(
    self, split: str, count: int, seed: int
  ) -> Iterator[jit_base.SolvedTask]:
    """Yields numbered matches, without a demonstration; see `TaskSource`."""
    splits.split_rng(split, seed)  # raises for what is wrong
    seats = 1 if self.opponent == SELF else self.rules.seats
    for number in range(count):
      deal = (self.first(split) + number // seats) % self.rules.deals
      task = {'deal': np.asarray(deal, np.int32)}
      if self.opponent != SELF:
        task['seat'] = np.asarray(number % seats, np.int32)
      key = splits.content_key(f'{split} {number}'.encode())
      yield jit_base.SolvedTask(task, [], key)

  def first(self, split: str) -> int:
    """Returns the deal that a split begins with."""
    del split
    return 0

  def env(self) -> base.Match | base.Against:
    match = base.Match(self.rules, self.illegal, self.forfeits)
    if self.opponent == SELF:
      return match
    return base.Against(match, self.players[self.opponent])


@dataclasses.dataclass(frozen=True)
class KuhnPoker(GameFamily):
  """Kuhn poker."""

  opponent: Solved = SELF

  rules: ClassVar[base.Rules] = kuhn.Kuhn()
  players: ClassVar[Mapping[str, base.Player]] = {
    UNIFORM: base.uniform,
    OPTIMAL: kuhn.optimal,
  }


@dataclasses.dataclass(frozen=True)
class TicTacToe(GameFamily):
  """Tic-tac-toe."""

  opponent: Solved = SELF

  rules: ClassVar[base.Rules] = lines.TIC_TAC_TOE
  players: ClassVar[Mapping[str, base.Player]] = {
    UNIFORM: base.uniform,
    OPTIMAL: lines.optimal,
  }


@dataclasses.dataclass(frozen=True)
class LeducPoker(GameFamily):
  """Leduc poker."""

  rules: ClassVar[base.Rules] = leduc.Leduc()


@dataclasses.dataclass(frozen=True)
class ConnectFour(GameFamily):
  """Connect four."""

  rules: ClassVar[base.Rules] = lines.CONNECT_FOUR


@dataclasses.dataclass(frozen=True)
class Coopetition(GameFamily):
  """Investments of two who depend on one another."""

  opponent: Solved = SELF
  mode: Annotated[
    str,
    OneOf(*coopetition.MODES),
    "whose outcome a seat is paid: its own, also the other's as far as it"
    ' depends on it, or the sum',
  ] = coopetition.INTEGRATED

  columns: ClassVar[tuple[str, ...]] = (
    base.ILLEGAL,
    *coopetition.Coopetition.columns,
  )
  players: ClassVar[Mapping[str, base.Player]] = {
    UNIFORM: base.uniform,
    OPTIMAL: coopetition.optimal,
  }
  forfeits: ClassVar[tuple[float, float]] = NO_WINNER

  @property
  def rules(self) -> base.Rules:  # type: ignore[override]  # of its settings
    return coopetition.Coopetition(self.mode)


Largest = Annotated[int, Whole(2, 12), 'largest of the two numbers of a sum']


@dataclasses.dataclass(frozen=True)
class _SumsFamily(GameFamily):
  """Settings of the games of agents that work on one sum."""

  largest: Largest = 5

  forfeits: ClassVar[tuple[float, float]] = NO_WINNER


@dataclasses.dataclass(frozen=True)
class SolverVerifier(_SumsFamily):
  """A solver and a verifier of sums."""

  tries: Annotated[int, Whole(2, 4), 'answers that the solver may give'] = 2

  @property
  def rules(self) -> base.Rules:  # type: ignore[override]  # of its settings
    return sums.SolverVerifier(self.largest, self.tries)


@dataclasses.dataclass(frozen=True)
class PioneerObserver(_SumsFamily):
  """A pioneer and an observer, who reads the pioneer's answer."""

  @property
  def rules(self) -> base.Rules:  # type: ignore[override]  # of its settings
    return sums.PioneerObserver(self.largest)


_Lines = Annotated[tuple[str, ...], Tuple(Text(empty=False))]
PROBLEMS = ('lookups', 'sums')


@dataclasses.dataclass(frozen=True)
class Workflow(GameFamily):
  """Roles that work on one task in an order of your own (workflow.py).

  Held-out lookups have facts of their own; sums come back. The policy has all
  seats: a match may end before a seat has spoken, which would be asked for a
  turn nevertheless if it were the only one.
  """

  opponent: Annotated[
    str,
    OneOf(SELF),
    "'': the policy itself; matches may end before a seat's turn",
  ] = SELF
  problem: Annotated[str, OneOf(*PROBLEMS), 'what the roles work on'] = (
    'lookups'
  )
  roles: Annotated[
    _Lines, "name, most turns and acts of each role: 'planner*3 search stop'"
  ] = ('planner*3 search stop', 'generator answer')
  order: Annotated[
    _Lines, "who speaks after whom; 'verifier:n planner': if it said n"
  ] = ('planner:. generator', 'planner planner', 'planner generator')
  hidden: Annotated[
    _Lines, "'planner solver': the first does not read what the second says"
  ] = ()
  pay: Annotated[
    _Lines, "what a role gets at the end: 'planner outcome own*0.5'"
  ] = ()
  untaught: Annotated[
    _Lines,
    "roles that demonstrate any legal message; others demonstrate an expert's",
  ] = ()
  cost: Annotated[float, Real(0), 'of a search, for roles paid `cost`'] = 0.0
  unread: Annotated[
    tuple[float, float],
    Tuple(Real(), length=2),
    'what a role that is not understood gets, which ends the match, and what'
    ' the others get',
  ] = NO_WINNER
  largest: Largest = 5
  things: Annotated[
    int, Whole(2, problems.MOST_THINGS), 'things that lookups are about'
  ] = 6
  relations: Annotated[
    int, Whole(1, problems.MOST_RELATIONS), 'relations that can be looked up'
  ] = 2
  known: Annotated[
    int,
    Whole(0, problems.MOST_RELATIONS, most='relations'),
    'relations whose facts are the same in all tasks',
  ] = 0
  hops: Annotated[int, Whole(1, 4), 'most relations of a chain'] = 2

  columns: ClassVar[tuple[str, ...]] = (
    base.ILLEGAL,
    *workflow.Workflow.columns,
  )

  def __post_init__(self):
    """Raises ValueError for a table that does not fit, or an opponent."""
    OneOf(SELF).check('env.opponent', self.opponent)
    table = self.rules.table
    names = [x.name for x in table.roles]
    if unknown := {*self.untaught} - {*names}:
      raise ValueError(
        f'env.untaught must name roles of {names}, got {sorted(unknown)}'
      )

  @property
  def forfeits(self) -> tuple[float, float]:  # type: ignore[override]
    own, others = self.unread
    return own, others

  @property
  def rules(self) -> workflow.Workflow:  # type: ignore[override]
    problem: problems.Problem = problems.Sums(self.largest)
    if self.problem == 'lookups':
      problem = problems.Lookups(
        self.things, self.relations, self.known, self.hops
      )
    table = workflow.read(
      problem, self.roles, self.order, self.hidden, self.pay
    )
    return workflow.Workflow(problem, table, tuple(self.untaught), self.cost)

  def first(self, split: str) -> int:
    return self.rules.deals // 2 if split == 'test' else 0
