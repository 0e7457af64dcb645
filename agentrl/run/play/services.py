"""Services of a run: the simulated users and judges of its config."""

import functools
import os
from collections.abc import Mapping

import jax

from agentrl.env import base
from agentrl.learner import algorithm
from agentrl.rollout.engine.service import EngineService
from agentrl.run import placement
from agentrl.run.check import service_checks
from agentrl.run.experiment import Experiment
from agentrl.run.play import host_env
from agentrl.runtime import storage
from agentrl.service.base import (
  CountedService,
  Function,
  Service,
  with_system_text,
)
from agentrl.service.chat_completions import ChatCompletions
from agentrl.types import PyTree

KEPT = 10_000  # answers of a model at temperature 0 that are remembered


class Services:
  """Open until `close`. Services of one role, or of one run, share a model."""

  def __init__(
    self, s: Experiment, runs: Mapping[str, PyTree], workdir: str = ''
  ):
    """Takes an experiment whose config was checked.

    Args:
      runs: policies of the runs that services generate with
      workdir: folder of the run, for answers of servers; '': remembered only
    """
    self._s = s
    self._workdir = workdir
    self._runs = {k: placement.to_local_mesh(x) for k, x in runs.items()}
    self._servers: dict[str, ChatCompletions] = {}
    self._models = self._opened()
    self._watched = {name: self._watch(name) for name in s.config.service}
    for run, params in self._runs.items():
      self._models['', run].update_weights(params)

  def serve(self, family: base.EnvFamily) -> base.EnvFamily:
    """Returns the family with environments that ask these."""
    return base.with_services(family, self._watched)

  def named(self, name: str) -> Service:
    """Returns the service of a name of c.service."""
    return self._watched[name]

  def update_params(self, params: dict[str, PyTree]) -> None:
    """Sets the parameters of all roles; copied before this returns."""
    for (role, run), model in self._models.items():
      if run:
        weights = self._runs[run]
      else:
        whole = algorithm.full_params(self._s.algorithm.context, params, role)
        weights = placement.to_local_mesh(whole)
      model.update_weights(weights)
    for name, service in self._s.config.service.items():
      if service.role:
        self._watched[name].forget()

  def taken(self) -> dict[str, int]:
    """Returns counts since the last call: 'service/<name>/<count>'."""
    return {
      f'service/{name}/{count}': n
      for services in (self._watched, self._servers)
      for name, service in services.items()
      for count, n in service.taken().items()
    }

  def close(self) -> None:
    for model in self._models.values():
      model.close()

  def _opened(self) -> dict[tuple[str, str], EngineService]:
    """Opens (role, run) -> model, with capacity for all its services."""
    c, s = self._s.config, self._s
    most = s.shape.positions
    for name, service in c.service.items():
      generated = service.role or service.run
      if generated and 0 < most < service.context:
        raise ValueError(
          f'service.{name}.context={service.context} is more than the'
          f' model.positions={most}; set it to {most} or less'
        )
    with placement.local_mesh():
      return {
        at: EngineService(s.shape, host_env.sizes(c, capacity), s.talk)
        for at, capacity in host_env.models(c).items()
      }

  def _server(self, name: str) -> ChatCompletions:
    """Opens the client of a server; answers are kept in the run's folder."""
    file = None
    if self._workdir and not storage.in_bucket(storage.path(self._workdir)):
      folder = os.path.join(self._workdir, 'services')
      file = os.path.join(folder, f'{name}.{jax.process_index()}.jsonl')
    self._servers[name] = ChatCompletions(
      service_checks.endpoint(self._s.config.service[name]), file
    )
    return self._servers[name]

  def _watch(self, name: str) -> CountedService:
    c, words = self._s.config.service[name], self._s.tokenizer
    speaks: Service
    if c.function:
      speaks, cached = Function(c.function), 0
    elif c.address:
      speaks, cached = self._server(name), 0
    else:
      model = self._models[c.role, c.run]
      speaks = functools.partial(
        model, temperature=c.temperature, budget=c.message
      )
      cached = 0 if c.temperature else KEPT
    return CountedService(
      with_system_text(speaks, c.system),
      lambda text: len(words.encode(text)),
      capacity=cached,
    )
