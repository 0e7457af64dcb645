"""A method that is wired up, and what it runs on."""

from collections.abc import Mapping
from typing import NamedTuple

from agentrl import registry, schedule
from agentrl.signal.base import Context
from agentrl.types import Module, PyTree

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


def whole(
  context: Context, params: dict[str, PyTree], role: str = POLICY
) -> PyTree:
  """What the role's module reads: its own parameters and those it shares.

  Args:
    params: of all roles, as in TrainState
  """
  share = context.modules[role].share
  return share.join(params[role], params[share.role]) if share else params[role]


def bound(learner: Learner, params: dict[str, PyTree]) -> Learner:
  """The learner whose modules are functions of a role's own parameters alone.

  What they share is taken from `params`. Called where an update is traced,
  shared parameters are arguments of its program like all of the state: laid
  out, donated and held once. Only what is a module's own is differentiated.
  """

  def bind(module: Module) -> Module:
    share = module.share
    if share is None:
      return module

    def apply(own, rows, needs):
      return module.apply(share.join(own, params[share.role]), rows, needs)

    return Module(module.specs, apply)

  modules = {role: bind(m) for role, m in learner.context.modules.items()}
  return learner._replace(context=learner.context._replace(modules=modules))
