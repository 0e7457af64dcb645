"""Kuhn poker as a host game: a referee in plain Python, which may misbehave."""

import dataclasses
import time

from agentrl.env import seats
from agentrl.env.base import HostTask
from agentrl.env.jit.games import base
from tests.env.jit.games import plain

SEATS = ('first', 'second')


class Referee:
  """A task may have 'fault', what goes wrong when move 'at' is heard."""

  def reset(self, task, seed):
    self.task, self.moves = task, ()
    return self._ask()

  def step(self, message):
    if len(self.moves) == self.task.get('at'):
      return getattr(self, self.task['fault'])()
    seat, legal = plain.kuhn(self.task['deal'], self.moves)
    move = 'pb'.find(message) if len(message) == 1 else -1
    if move not in legal:
      won = base.WON_BY_FORFEIT, base.FORFEITED
      return self._over({x: won[i == seat] for i, x in enumerate(SEATS)}, seat)
    self.moves = (*self.moves, move)
    after = plain.kuhn(self.task['deal'], self.moves)
    if isinstance(after[1], list):
      return self._ask()
    return self._over(dict(zip(SEATS, after, strict=True)))

  def close(self):
    pass

  def _ask(self):
    seat, _ = plain.kuhn(self.task['deal'], self.moves)
    return seats.Ruling(SEATS[seat], self.seen(seat))

  def seen(self, seat):
    card = 'JQK'[plain.KUHN_DEALS[self.task['deal']][seat]]
    return f'{card}{"".join("pb"[a] for a in self.moves)}\n'

  def _over(self, won, forfeit=None):
    illegal = {} if forfeit is None else {SEATS[forfeit]: {'illegal': 1.0}}
    return seats.Ruling(
      '',
      invalid=forfeit is not None,
      reward=won,
      score={x: float(y > 0) for x, y in won.items()},
      info=illegal,
    )

  def explode(self):
    raise RuntimeError('the table broke')

  def hang(self):
    time.sleep(600)

  def rich(self):
    return seats.Ruling('first', 'x', reward={'first': 1e300})

  def cheat(self):
    return seats.Ruling('', score={'first': 2.0})

  def stranger(self):
    return seats.Ruling('third', 'x')

  def undeclared(self):
    return seats.Ruling('first', 'x', info={'first': {'mood': 1.0}})


@dataclasses.dataclass(frozen=True)
class Kuhn:
  worker: str = 'thread'
  system: str = ''
  own: str = ''

  columns = ('illegal',)
  seat_names = SEATS

  def seat_system(self, seat):
    return self.own and f'{self.own} {seat}'

  def name(self):
    return 'kuhn'

  def tasks(self, split, count, seed):
    base = 0 if split == 'train' else 1000
    for n in range(base, base + count):
      yield HostTask({'deal': n % 6}, ('p', 'b', 'b'), f'{n:016x}')

  def env(self):
    return seats.RefereedEnv(Referee(), SEATS)
