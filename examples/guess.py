"""Guess a number: a game of several turns, which README shows how to write."""

import dataclasses
from typing import ClassVar

from agentrl.env import task_sampling
from agentrl.env.base import Step


@dataclasses.dataclass(frozen=True)
class Guess:
  span: int = 15
  columns: ClassVar[tuple[str, ...]] = ('near',)
  system: ClassVar[str] = 'Guess the number.'
  worker: ClassVar[str] = 'thread'

  def name(self):
    return task_sampling.name('guess', self)

  def tasks(self, split, count, seed):
    def draw(rng):
      low = int(rng.integers(1, 900))
      return [low, low + self.span, int(rng.integers(low, low + self.span))]

    return task_sampling.drawn(draw, self.bisect, split, count, seed)

  def bisect(self, task):
    low, high, number = task
    moves = []
    while number not in moves:
      moves.append((low + high) // 2)
      low, high = (moves[-1], high) if number > moves[-1] else (low, moves[-1])
    return {'task': task}, [str(n) for n in moves]

  def env(self):
    return GuessEnv()


class GuessEnv:
  def reset(self, task, seed):
    self.low, self.high, self.number = task['task']
    return f'From {self.low} to {self.high - 1}?'

  def step(self, message):
    if message not in map(str, range(self.low, self.high)):
      return Step('Say a number.', invalid=True, info={'near': 0.0})
    off = int(message) - self.number
    info = {'near': 1 / (1 + abs(off))}
    if not off:
      return Step('', reward=1.0, done=True, score=1.0, info=info)
    return Step('Lower.' if off > 0 else 'Higher.', info=info)

  def close(self):
    pass
