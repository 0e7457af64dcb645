"""Kuhn poker as a host game, by a referee that may misbehave."""

import dataclasses
import time

from agentrl.env import seats
from agentrl.env.base import HostTask
from agentrl.lab.bench import kuhn_table
from agentrl.lab.bench.kuhn_table import SEATS


class Referee(kuhn_table.Referee):
  """A task may have 'fault', what goes wrong when move 'at' is heard."""

  def reset(self, task, seed):
    self.task = task
    return super().reset(task, seed)

  def step(self, message):
    if len(self.moves) == self.task.get('at'):
      return getattr(self, self.task['fault'])()
    return super().step(message)

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
