"""Who plays: rollouts inside jit, or worlds on the host."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from agentrl import loop
from agentrl.rollout.record import Record
from agentrl.types import Attempts, Batch, Metrics, PyTree
from experiments import build, rollouts, spread
from experiments.hosted import Hosted


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
  messages = functools.cache(lambda: rollouts.messages(s, s.train))
  replay = spread.sharded(functools.partial(rollouts.demonstrate, s))
  collect = spread.sharded(functools.partial(rollouts.collect, s))
  play = spread.whole(functools.partial(rollouts.play, s))

  def chosen(index: np.ndarray):
    said, length = messages()
    return rollouts.demo_attempts(s, index), said[index], length[index]

  def demonstrate(chosen, key) -> Batch:
    return replay(*spread.replicated(chosen), key)

  def collected(policy, attempts: Attempts, key, step) -> Batch:
    return collect(policy, spread.replicated(attempts), key, step)

  def played(policy, attempts: Attempts, key) -> Record:
    return play(policy, spread.replicated(attempts), key)

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
