"""A method that is wired up, and what it runs on."""

from collections.abc import Mapping
from typing import NamedTuple

from agentrl import registry, schedule
from agentrl.signal.base import Context

POLICY = 'policy'


class Learner(NamedTuple):
  """A method, and what it runs on."""

  wiring: registry.Wiring
  context: Context
  coef: Mapping[str, float] = {}  # of streams and of loss terms; default 1
  select: Mapping[str, Mapping[str, int]] = {}  # term -> {'span'|'source': id}
  # path ('coef.x', 'hp.scope.piece.name', 'role.policy.lr') -> a schedule
  schedules: Mapping[str, schedule.Schedule] = {}
  seed: int = 0
  start: int = 0  # the step of the run at which this learner's stage begins


def signals(learner: Learner):
  """The signals of the wiring, in order."""
  w = learner.wiring
  return [
    registry.bind('signal', name, w.values('signal', name))(learner.context)
    for name in w.signal
  ]


def memories(learner: Learner):
  """{name: Memory} of the wiring."""
  w = learner.wiring
  return {
    name: registry.bind('memory', name, w.values('memory', name))()
    for name in w.memory
  }
