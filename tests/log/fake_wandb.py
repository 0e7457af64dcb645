"""Runs that Weights & Biases would hold, in lists."""

import sys
import types

import pytest


class FakeRun:
  def __init__(self, settings):
    self.settings, self.rows, self.ended = settings, [], False

  def log(self, row, step):
    assert not self.ended
    self.rows.append((step, row))

  def finish(self):
    self.ended = True


@pytest.fixture
def runs(monkeypatch):
  """The runs that the stand-in was asked for."""
  made = []

  def init(**settings):
    made.append(FakeRun(settings))
    return made[-1]

  fake = types.ModuleType('wandb')
  fake.init = init
  monkeypatch.setitem(sys.modules, 'wandb', fake)
  return made
