"""The users and judges of a run: its config's `service`, opened."""

import functools

from agentrl.env import base
from agentrl.learner import algorithm
from agentrl.rollout.engine.service import Model
from agentrl.run import build, host_env, placement, workdir
from agentrl.service.base import Function, Service, Watched, told
from agentrl.types import PyTree

KEPT = 10_000  # answers of a model at temperature 0 that are remembered


class Services:
  """Open until `close`. Services of one role, or of one run, share a model."""

  def __init__(self, s: build.Setup):
    """Of a config that was checked.

    Raises:
      ValueError: a run that is none, or one of another model.
    """
    self._s = s
    self._runs: dict[str, PyTree] = {}
    for name, service in s.config.service.items():
      if service.run and service.run not in self._runs:
        workdir.same_model(s.config, f'service.{name}.run')
        self._runs[service.run] = placement.brought(
          workdir.policy(s.shape, service.run)
        )
    self._models = self._opened()
    self._watched = {name: self._watch(name) for name in s.config.service}
    for run, params in self._runs.items():
      self._models['', run].swap(params)

  def serve(self, family: base.Family) -> base.Family:
    """The family whose environments ask these."""
    return base.served(family, self._watched)

  def lend(self, params: dict[str, PyTree]) -> None:
    """What roles are from now on; copied before this returns."""
    for (role, run), model in self._models.items():
      context = self._s.learner.context
      if run:
        model.swap(self._runs[run])
      else:
        model.swap(placement.brought(algorithm.whole(context, params, role)))
    for name, service in self._s.config.service.items():
      if service.role:
        self._watched[name].forget()

  def taken(self) -> dict[str, int]:
    """What was asked since this was called last: 'service/<name>/<count>'."""
    return {
      f'service/{name}/{count}': n
      for name, watched in self._watched.items()
      for count, n in watched.taken().items()
    }

  def close(self) -> None:
    for model in self._models.values():
      model.close()

  def _opened(self) -> dict[tuple[str, str], Model]:
    """(role, run) -> the model, with room for whoever it speaks as."""
    c, s = self._s.config, self._s
    for name, service in c.service.items():
      if not service.function:
        self._fits(name)
    with placement.near():
      return {
        at: Model(s.shape, host_env.sizes(c, capacity), s.world.talk)
        for at, capacity in host_env.models(c).items()
      }

  def _fits(self, name: str) -> None:
    needed, most = self._s.config.service[name].context, self._s.shape.positions
    if 0 < most < needed:
      raise ValueError(
        f'service.{name}.context={needed} is more than the'
        f' model.positions={most}; set it to {most} or less'
      )

  def _watch(self, name: str) -> Watched:
    c, words = self._s.config.service[name], self._s.tokenizer
    speaks: Service
    if c.function:
      speaks, kept = Function(c.function), 0
    else:
      model = self._models[c.role, c.run]
      speaks = functools.partial(
        model, temperature=c.temperature, budget=c.message
      )
      kept = 0 if c.temperature else KEPT
    return Watched(
      told(speaks, c.system), lambda text: len(words.encode(text)), kept=kept
    )
