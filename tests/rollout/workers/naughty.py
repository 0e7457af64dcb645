"""Environments that do what they are told, however bad; for tests of rooms."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from typing import Any

from agentrl.env.base import Step


class Rude(Exception):
  def __str__(self):
    raise RuntimeError('no')

  __repr__ = __str__


class Word(str):
  """A subclass of str."""


class Env:
  """Counts its tasks; a message or a task names what it does."""

  def __init__(self):
    self.tasks = 0

  def reset(self, task, seed):
    self.tasks += 1
    if 'do' in task:
      return getattr(self, task['do'])()
    return f'{os.getpid()} {self.tasks} {seed}'

  def step(self, message):
    act, _, rest = message.partition(' ')
    return getattr(self, act)(*rest.split())

  def close(self):
    pass

  def say(self, *words):
    return Step(' '.join(words), 1.5, info={'seen': 2})

  def value(self, name):
    return VALUES[name]

  def rude(self):
    raise Rude

  def fail(self):
    raise KeyError('lost')

  def leave(self):
    sys.exit(3)

  def die(self):
    print('my last words', flush=True)
    os._exit(3)

  def hang(self, seconds='600'):
    time.sleep(float(seconds))
    return Step('late')

  def breed(self):
    """A grandchild that never ends, which holds all it inherits."""
    sleeper = subprocess.Popen(['sleep', '600'], close_fds=False)
    if not (forked := os.fork()):
      time.sleep(600)
      os._exit(0)
    return Step(f'{os.getpgrp()} {sleeper.pid} {forked}')

  def roam(self):
    """Starts sleepers in groups and sessions of their own, and an orphan."""
    for away in ({'process_group': 0}, {'start_new_session': True}):
      subprocess.Popen(['sleep', '600'], **away)
    if not (parent := os.fork()):
      os.setsid()
      if not os.fork():
        os.execvp('sleep', ['sleep', '600'])
      os._exit(0)
    os.waitpid(parent, 0)
    return Step('gone')

  def roam_and_die(self):
    self.roam()
    os._exit(0)

  def roam_and_hang(self):
    self.roam()
    time.sleep(600)

  def roam_and_stop(self):
    """Stops itself and whoever watches over it."""
    self.roam()
    os.kill(os.getppid(), signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGSTOP)

  def flood(self, size):
    print('x' * int(size), flush=True)
    return Step('dry')

  def forge(self):
    """Writes to its pipes itself."""
    for handle in range(3, 1000):
      try:
        os.write(handle, (5).to_bytes(4) + b'{"a":')
      except OSError:
        continue
    time.sleep(600)

  def bomb(self):
    for handle in range(3, 1000):
      try:
        os.write(handle, (1 << 31).to_bytes(4))
      except OSError:
        continue
    time.sleep(600)

  def modules(self):
    return Step(' '.join(x for x in ('jax', 'numpy') if x in sys.modules))


VALUES: dict[str, Any] = {
  'none': None,
  'tuple': ('text', 0.0),
  'bytes': Step(b'text'),
  'surrogate': Step('\ud800'),
  'long': Step('x' * 100_001),
  'huge': Step('x' * 3_000_000),
  'nan': Step('', float('nan')),
  'inf': Step('', score=float('inf')),
  'digits': Step('', 10**5000),
  'rich': Step('', 1e300),
  'poor': Step('', -1.1e12),
  'payoff': Step('', score=1.5),
  'debt': Step('', score=-0.25),
  'words': Step('', '1'),
  'done': Step('', done=1),
  'invalid': Step('', invalid=None),
  'facts': Step('', info=[1]),
  'unknown': Step('', info={'sene': 1.0}),
  'fact': Step('', info={'seen': float('nan')}),
  'far': Step('', info={'seen': 1e39}),
}


@dataclasses.dataclass(frozen=True)
class Family:
  """Settings."""

  worker: str = 'process'
  bad: str = ''
  extra: Any = None

  columns = ('seen', 'unseen')
  system = ''

  def name(self):
    return 'naughty'

  def tasks(self, split, count, seed):
    raise NotImplementedError

  def env(self):
    if self.bad == 'missing':
      raise ValueError('it needs a cat; run pip install cat')
    if self.bad == 'broken':
      raise OSError('no display')
    return Env()
