"""Kuhn poker as a host game: a referee in plain Python.

The rules, observations and rewards of `kuhn_poker` inside jit (env/jit/games),
with a forfeit for a message that names no move. It is what self-play inside
jit is timed against.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from agentrl.env import seats, splits
from agentrl.env.base import HostTask
from agentrl.env.jit.games import base, kuhn

SEATS = ('first', 'second')
# Who wins by the moves: by a showdown with the better card, or by a fold.
SHOWDOWNS = {'pp': 1, 'bb': 2, 'pbb': 2}  # chips
FOLDS = {'bp': 0, 'pbp': 1}  # the seat that bet, and wins a chip


class Referee:
  """One table; a task is the number of a deal, 'deal'."""

  def reset(self, task: Mapping[str, Any], seed: int) -> seats.Ruling:
    del seed  # a task leaves nothing open
    self.cards, self.moves = kuhn.HANDS[task['deal']], ''
    return self.ask()

  def step(self, message: str) -> seats.Ruling:
    seat = len(self.moves) % 2
    if message not in kuhn.Kuhn.actions:
      won = [base.WON_BY_FORFEIT, base.WON_BY_FORFEIT]
      won[seat] = base.FORFEITED
      return self.over(won, forfeit=seat)
    self.moves += message
    if self.moves in SHOWDOWNS:
      winner, chips = int(self.cards[1] > self.cards[0]), SHOWDOWNS[self.moves]
    elif self.moves in FOLDS:
      winner, chips = FOLDS[self.moves], 1
    else:
      return self.ask()
    return self.over([chips * (1.0 - 2 * (x != winner)) for x in (0, 1)])

  def close(self) -> None:
    pass

  def ask(self) -> seats.Ruling:
    """Asks the seat to move, which sees its card and the moves so far."""
    seat = len(self.moves) % 2
    card = kuhn.CARDS[self.cards[seat]]
    return seats.Ruling(SEATS[seat], f'{card}{self.moves}\n')

  def over(self, won: list[float], forfeit: int | None = None) -> seats.Ruling:
    """Ends the match: each seat gets what it has won."""
    illegal = {} if forfeit is None else {SEATS[forfeit]: {base.ILLEGAL: 1.0}}
    return seats.Ruling(
      '',
      invalid=forfeit is not None,
      reward=dict(zip(SEATS, won, strict=True)),
      score={x: float(y > 0) for x, y in zip(SEATS, won, strict=True)},
      info=illegal,
    )


@dataclasses.dataclass(frozen=True)
class KuhnTable:
  """Tasks are numbered matches, of every deal in turn."""

  columns: ClassVar[tuple[str, ...]] = (base.ILLEGAL,)
  seat_names: ClassVar[tuple[str, ...]] = SEATS
  system: ClassVar[str] = ''
  worker: ClassVar[str] = 'thread'

  def seat_system(self, seat: str) -> str:
    del seat
    return ''

  def name(self) -> str:
    return 'kuhn_table'

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    splits.split_rng(split, seed)  # raises for what is wrong
    for number in range(count):
      key = splits.content_key(f'{split} {number}'.encode())
      deal = {'deal': number % len(kuhn.HANDS)}
      yield HostTask(deal, ('p', 'b', 'b'), key)

  def env(self) -> seats.RefereedEnv:
    return seats.RefereedEnv(Referee(), SEATS)
