"""Tasks of the package scienceworld (arXiv 2203.07540), which runs in Java.

The package itself splits the variations of a task. The score is the share of
the task's goals that are met; a wrong answer ends the episode below 0.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from agentrl.env import base, splits, task_sampling
from agentrl.env.external import java

_UNKNOWN = 'No known action matches that input'


@dataclasses.dataclass(frozen=True)
class ScienceWorld:
  """A task is {'variation'}, an index into the package's variations."""

  task: str = 'find-living-thing'  # the package's name
  simplifications: str = 'easy'  # the package's, joined by commas

  columns: ClassVar[tuple[str, ...]] = ()
  system: ClassVar[str] = ''  # the first observation tells the task
  worker: ClassVar[str] = 'process'  # Java may hang

  def name(self) -> str:
    """Returns scienceworld-<task>-<hash of all settings>."""
    return task_sampling.name(f'scienceworld-{self.task}', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[base.HostTask]:
    """Yields variations with the package's solution; see `base.EnvFamily`."""
    splits.split_rng(split, seed)  # before Java starts
    with contextlib.closing(self.env()) as env:
      for number in java.chosen(env.numbers(split), split, count, seed):
        task = {'variation': number}
        key = splits.content_key(repr((self.task, number)).encode())
        yield base.HostTask(task, env.way(task), key)

  def env(self) -> 'ScienceEnv':
    try:
      import scienceworld
    except ModuleNotFoundError as error:
      raise base.missing('scienceworld', 'java') from error
    java.needed('scienceworld')
    world = scienceworld.ScienceWorldEnv(envStepLimit=2**31)
    try:
      world.load(self.task, 0, self.simplifications)
    except ValueError as error:
      java.stop(world)
      raise ValueError(
        f'task={self.task!r} with simplifications={self.simplifications!r} was'
        f' rejected by scienceworld: {error}'
      ) from error
    return ScienceEnv(self, world)


class ScienceEnv:
  """Plays the variations of a task in a Java process."""

  def __init__(self, family: ScienceWorld, world: Any):
    self.family, self.world = family, world

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    """Returns the task and the first observation; nothing is random."""
    del seed
    self._load(task)
    # The package's own step lists all valid actions each time, which is slow.
    self.server, self.score = self.world.server, 0.0
    self.server.reset()
    description = self.world.get_task_description().strip()
    return f'{description}\n{self.server.step("look around").strip()}'

  def step(self, message: str) -> base.Step:
    """Takes one action; the reward is the change of the score."""
    text = self.server.step(java.sanitize(message)).strip()
    score = float(self.server.getScore())
    reward, self.score = score - self.score, score
    done = bool(self.server.getCompleted()) or score < 0
    invalid = text.startswith(_UNKNOWN)
    text = '' if done else text
    return base.Step(text, reward, done, max(score, 0.0), invalid)

  def close(self) -> None:
    """Ends the Java process."""
    if self.world is not None:
      java.stop(self.world)
      self.world = None

  def numbers(self, split: str) -> list[int]:
    """Returns the package's variations of a split."""
    if split == 'train':
      return list(self.world.get_variations_train())
    return list(self.world.get_variations_test())

  def way(self, task: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the package's solution of a variation, if it works."""
    self._load(task, gold=True)
    way = tuple(self.world.get_gold_action_sequence())
    self.reset(task, 0)
    replies = [self.step(message) for message in way]
    won = replies and replies[-1].done and replies[-1].score == 1
    return way if won and not any(r.invalid for r in replies) else ()

  def _load(self, task: Mapping[str, Any], gold: bool = False) -> None:
    family = self.family
    self.world.load(
      family.task, task['variation'], family.simplifications, gold
    )
