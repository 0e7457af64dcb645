"""An environment in an actor of Ray, somewhere in a cluster.

Ray moves Python objects by pickle, so here, unlike in a process worker, the
cluster is trusted; results of an environment still come as JSON.

Not yet run: where this was written Ray 2.60 installed and no cluster started.
"""

from collections.abc import Callable, Mapping
from typing import Any

from agentrl.env.base import EnvFamily, Step
from agentrl.rollout.workers.replies import (
  EnvError,
  InProcessEnv,
  decode_reply,
  encode_reply,
)
from agentrl.runtime import install

_GRACE = 2.0  # seconds to end in by itself


class RayHost:
  """Actor in the cluster; its replies are JSON."""

  def __init__(self, family: EnvFamily, characters: int):
    self._local = InProcessEnv(family, characters)

  def reset(self, task: dict[str, Any], seed: int) -> bytes:
    return encode_reply(lambda: self._local.reset(task, seed))

  def step(self, message: str) -> bytes:
    return encode_reply(lambda: self._local.step(message))

  def close(self) -> None:
    self._local.close()


class RayEnv:
  """One environment in the cluster; see `pool.EnvBackend`."""

  def __init__(self, ray: Any, family: EnvFamily, characters: int):
    self._ray, self._family, self._characters = ray, family, characters
    self._actor: Any = None
    self._killed = False

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    if self._actor is None:
      # No whole core each: most of an environment's time is spent waiting.
      host = self._ray.remote(num_cpus=0, scheduling_strategy='SPREAD')(RayHost)
      self._actor = host.remote(self._family, self._characters)
    return self._call(self._actor.reset.remote(dict(task), seed))

  def step(self, message: str) -> Step:
    if self._actor is None:
      raise ValueError('no task is under way; call reset before step')
    return self._call(self._actor.step.remote(message))

  def kill(self) -> bool:
    self._killed = True
    if (actor := self._actor) is not None:
      self._ray.kill(actor)
    return True

  def close(self) -> None:
    actor, self._actor = self._actor, None
    if actor is None:
      return
    if not self._killed:
      self._ray.wait([actor.close.remote()], timeout=_GRACE)
    self._ray.kill(actor)

  def _call(self, answer: Any) -> Any:
    try:
      data = self._ray.get(answer)
    except self._ray.exceptions.RayError as error:
      why = f'its actor ended: {type(error).__name__}'
    else:
      out = decode_reply(data, self._family.columns, self._characters)
      if isinstance(out, Exception):
        raise out
      return out
    self._ray.kill(self._actor)
    self._actor = None
    raise EnvError('crash', why)


def ray_envs(family: EnvFamily, characters: int) -> Callable[[], RayEnv]:
  """Returns a factory of actors; starts Ray if it is not running.

  Raises:
    ValueError: it is not installed.
  """
  try:
    import ray
  except ImportError as error:
    raise ValueError(
      "worker='ray' needs the package ray, which is not installed; run"
      f" {install.command('ray')}, or use worker='process'"
    ) from error
  if not ray.is_initialized():
    ray.init(include_dashboard=False, log_to_driver=False)
  return lambda: RayEnv(ray, family, characters)
