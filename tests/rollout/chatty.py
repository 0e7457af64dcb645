"""A world that talks much, ends when it likes, and fails as it is told."""

import dataclasses
import hashlib
import os
import signal
import time

from agentrl.env.base import HostTask, Step

FAULTS = {
  'raise': 'exception',
  'hang': 'timeout',
  'bytes': 'malformed',
  'megabytes': 'oversize',
  'nan': 'malformed',
  'rich': 'malformed',
  'payoff': 'malformed',
  'killed': 'crash',
}


class Env:
  def reset(self, task, seed):
    self.task, self.past = task, f'{task["n"]} {seed}'
    self.turn = 0
    return self._text()

  def step(self, message):
    self.turn += 1
    self.past += message
    if self.turn == self.task.get('at') and 'fault' in self.task:
      return getattr(self, self.task['fault'])()
    if 'slow' in self.task:
      time.sleep(self._number(1) / 2560)
    done = self._number(2) < 50
    info = {'mood': self._number(3) / 255}
    score = float(done and self._number(4) < 128)
    return Step(self._text(), score - 0.25, done, score, info=info)

  def close(self):
    pass

  def _number(self, i):
    return hashlib.sha256(self.past.encode()).digest()[i]

  def _text(self):
    words = ('go', 'left', 'a box', '\u00e9', 'x' * (self._number(5) % 9))
    return ' '.join(words[self._number(i) % 5] for i in range(6, 12)) + '\n'

  def hang(self):
    time.sleep(600)

  def bytes(self):
    return Step(b'text')

  def megabytes(self):
    return Step('x' * 5_000_000)

  def nan(self):
    return Step('', float('nan'))

  def rich(self):
    return Step('', 1e300)

  def payoff(self):
    return Step('', 7.0, True, 7.0)

  def killed(self):
    os.kill(os.getpid(), signal.SIGKILL)


setattr(Env, 'raise', lambda self: 1 / 0)


@dataclasses.dataclass(frozen=True)
class Chatty:
  worker: str = 'thread'
  system: str = ''

  columns = ('mood',)

  def name(self):
    return 'chatty'

  def tasks(self, split, count, seed):
    base = 0 if split == 'train' else 10_000
    for n in range(base, base + count):
      yield HostTask({'n': n}, ('up', 'down'), f'{n:016x}')

  def env(self):
    return Env()
