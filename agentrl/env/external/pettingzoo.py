"""Environments of several agents: the AEC interface of PettingZoo.

Agents act by turns. With seats='one' the policy has one of them, which the task
names, and the others act at random among what is allowed. With seats='all' it
acts for each in turn, in one conversation, and their rewards are added up: for
agents that work together, since what is won and lost in a game adds up to 0.
With seats='each' it acts for each in a conversation of its own (env/seats.py).

Observations that are arrays need a function that describes them; see `show`.
"""

import dataclasses
from collections.abc import Iterator
from typing import Annotated, ClassVar

from agentrl import domain
from agentrl.env import base, task_sampling
from agentrl.env.external import interpreter, keywords
from agentrl.env.external.aec_env import SEATS, AecEnv, AecMaker
from agentrl.env.seats import RefereedEnv


@dataclasses.dataclass(frozen=True)
class PettingZoo:
  """A task is {'seed'}, and 'player' where the policy has one seat."""

  make: str = ''  # 'module:function' of (id, **settings)
  id: str = ''  # its first argument; '': none
  settings: str = ''  # its other arguments, as in 'rounds=4'
  seats: Annotated[str, domain.OneOf(*SEATS)] = 'one'  # that the policy has
  players: domain.Count = 2  # seats at the table
  show: str = ''  # 'module:function' of (observation, agent); '': as printed
  read: str = ''  # 'module:function' of (message, space); '': a number
  solved: domain.Number = 1.0  # return from which a task counts as solved
  python: domain.Place = ''  # of another virtual environment; '': this one

  columns: ClassVar[tuple[str, ...]] = AecMaker.columns
  system: ClassVar[str] = ''
  worker: ClassVar[str] = 'process'

  def check(self) -> None:
    if not self.make:
      raise ValueError(
        "env.make='' makes no environment; set it to a function, 'module:name',"
        " such as 'pettingzoo.classic.tictactoe_v3:env'"
      )
    keywords.parse(self.settings)
    for field in ('make', 'show', 'read'):
      if path := vars(self)[field]:
        interpreter.check(self.python, path, field)

  @property
  def maker(self) -> AecMaker:
    fields = base.settings(AecMaker)
    return AecMaker(**{name: vars(self)[name] for name in fields})

  def name(self) -> str:
    """Returns pettingzoo-<hash of all settings>."""
    return task_sampling.name('pettingzoo', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[base.HostTask]:
    """Returns distinct seeds and seats; see `base.EnvFamily`."""
    seats = self.players if self.seats == 'one' else 0
    return task_sampling.seeds(split, count, seed, seats=seats)

  @property
  def seat_names(self) -> tuple[str, ...]:
    return self.maker.seat_names

  def seat_system(self, seat: str) -> str:
    """Returns '': observations say all."""
    del seat
    return ''

  def env(self) -> AecEnv | RefereedEnv:
    return self.maker.env()
