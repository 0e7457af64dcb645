"""Environments of text behind Gymnasium's interface: GEM, τ²-bench and yours.

  make       my_module:make                 make(id, **settings)
  reset      reset(seed=3)       -> (observation, info)
  step       step('go left')     -> (observation, reward, terminated, truncated,
                                     info)

Observations and actions are texts. Each environment has a process of its own,
since some seed the generators that all of a process share (GEM 0.1.0 does); a
process that hangs or dies is killed and costs its trajectory.
"""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

from agentrl import domain
from agentrl.env import base, task_sampling
from agentrl.env.external import interpreter, keywords
from agentrl.env.external.gymnasium_env import GymnasiumEnv, GymnasiumMaker


@dataclasses.dataclass(frozen=True)
class GymnasiumText:
  """A task is {'seed'}: all that is random in the episode follows from it."""

  make: str = ''  # 'module:function' of (id, **settings), as 'gem:make'
  id: str = ''  # its first argument, as 'game:GuessTheNumber-v0'; '': none
  settings: str = ''  # its other arguments, as in 'size=4, slippery=False'
  solved: domain.Number = 1.0  # return from which a task counts as solved
  python: domain.Place = ''  # of another virtual environment; '': this one

  columns: ClassVar[tuple[str, ...]] = GymnasiumMaker.columns
  system: ClassVar[str] = ''  # an environment tells its rules itself
  worker: ClassVar[str] = 'process'

  def check(self) -> None:
    if not self.make:
      raise ValueError(
        "env.make='' makes no environment; set it to a function, 'module:name',"
        " such as 'gem:make'"
      )
    keywords.parse(self.settings)
    interpreter.check(self.python, self.make)

  @property
  def maker(self) -> GymnasiumMaker:
    return GymnasiumMaker(self.make, self.id, self.settings, self.solved)

  def name(self) -> str:
    """Returns gymnasium_text-<hash of all settings>."""
    return task_sampling.name('gymnasium_text', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[base.HostTask]:
    """Returns distinct seeds, without demonstrations; see `base.EnvFamily`."""
    return task_sampling.seeds(split, count, seed)

  def env(self) -> GymnasiumEnv:
    return self.maker.env()
