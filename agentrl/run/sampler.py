"""Who plays: rollouts inside jit, or worlds on the host."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from agentrl import loop
from agentrl.rollout.record import Record
from agentrl.run import build, placement
from agentrl.run import collect as collect_lib
from agentrl.run.host_sampler import Hosted
from agentrl.types import Attempts, Batch, Metrics, PyTree


class Players(NamedTuple):
  """What a run's stages and evaluations do with its environment.

  chosen: indices of training tasks -> what `demonstrate` takes
  demonstrate: (chosen, key) -> Batch of solutions
  collect: (policy, attempts, key, step) -> Batch with rewards
  observe: Batch -> metrics of what was collected
  play: (policy, attempts, key) -> Record
  lend: parameters of all roles, before any of the others plays
  """

  chosen: Callable[[np.ndarray], Any]
  demonstrate: Callable[..., Batch]
  collect: Callable[..., Batch]
  observe: Callable[[Batch], Metrics]
  play: Callable[..., Record]
  lend: Callable[[dict[str, PyTree]], None] = lambda params: None


def jitted(s: build.Setup) -> Players:
  """Of an environment inside jit, each compiled once."""
  messages = functools.cache(lambda: collect_lib.messages(s, s.train))
  replay = placement.sharded(functools.partial(collect_lib.demonstrate, s))
  collect = placement.sharded(functools.partial(collect_lib.collect, s))
  play = placement.whole(functools.partial(collect_lib.play, s))

  def chosen(index: np.ndarray):
    said, length = messages()
    return collect_lib.demo_attempts(s, index), said[index], length[index]

  def demonstrate(chosen, key) -> Batch:
    return replay(*placement.replicated(chosen), key)

  def collected(policy, attempts: Attempts, key, step) -> Batch:
    return collect(policy, placement.replicated(attempts), key, step)

  def played(policy, attempts: Attempts, key) -> Record:
    return play(policy, placement.replicated(attempts), key)

  return Players(chosen, demonstrate, collected, loop.observe, played)


@contextlib.contextmanager
def players(
  s: build.Setup, stopping: Callable[[], None] = lambda: None
) -> Iterator[Players]:
  """Those of a run, as long as it lasts.

  stopping: raises when the run is to end; asked while worlds are waited for
  """
  if s.config.rollout_kind != 'host':
    yield jitted(s)
    return
  with Hosted(s, stopping) as hosted:
    yield Players(
      chosen=lambda index: index,
      demonstrate=hosted.demonstrate,
      collect=hosted.collect,
      observe=hosted.observe,
      play=hosted.play,
      lend=hosted.lend,
    )
