"""Environments of text as their users write them; they need no package."""

import os
import random
import time


class Guess:
  """A number is guessed; whatever is random is of the process's generator."""

  def __init__(self, high=8, prize=1.0):
    self._high, self._prize = high, prize

  def reset(self, *, seed=None):
    self._number = random.randrange(self._high)
    self._turns = 0
    return f'below {self._high} ({random.randrange(1000)})', {}

  def step(self, action):
    self._turns += 1
    if action == 'hang':
      time.sleep(600)
    if action == 'die':
      os._exit(3)
    if action == 'process':
      return str(os.getpid()), 0.0, False, False, {}
    if action == 'raise':
      raise RuntimeError('it broke')
    if action == 'wrong':
      return 'three', 0.0, False
    if action == 'number':
      return self._number, 0.0, False, False, {}
    if action == str(self._number):
      return 'yes', self._prize, True, False, {}
    return 'no', -0.25, False, self._turns == 4, {}


def make(high=8, prize=1.0):
  return Guess(high, prize)


def of_id(id, **settings):
  return {'guess': Guess}[id](**settings)


class Bare(Guess):
  def reset(self, *, seed=None):
    return super().reset(seed=seed)[0]


def bare():
  return Bare()


def nothing():
  return object()


def unlucky():
  raise OSError('the disk is away')
