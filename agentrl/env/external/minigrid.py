"""MiniGrid and BabyAI as text: the agent's view and its mission.

Rules, rewards and the turn limit come from the package minigrid (arXiv
2306.13831). The reward is 1 - 0.9 turns / limit on success, else 0. BabyAI's
bot (arXiv 1810.08272) provides demonstrations; MiniGrid's own tasks have none.
"""

import contextlib
import dataclasses
import io
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from agentrl.env import base, splits, task_sampling

ACTIONS = ('left', 'right', 'forward', 'pickup', 'drop', 'toggle', 'done')
RULES = (
  'You see the cells before you, and are ^ looking up. A cell is a letter and'
  ' its colour: K key, B ball, X box, G goal, L lava, D door: O open, C closed'
  ' or locked D; # is a wall, . is free, ? not seen. Say one of: '
  + ', '.join(ACTIONS)
  + '.'
)
# By the package's numbers; a door's letter is that of its state.
_OBJECTS = '?.#.DKBXGL'
_COLOURS = 'rgbpye'
_DOORS = 'OCD'


@dataclasses.dataclass(frozen=True)
class MiniGrid:
  """A task is the seed of a room: {'seed'}."""

  id: str = 'BabyAI-GoToLocal-v0'  # of any environment of the package
  rules: bool = True  # tells how to play, before the first observation

  columns: ClassVar[tuple[str, ...]] = ()
  worker: ClassVar[str] = 'process'  # it computes

  def __post_init__(self):
    if not self.id.startswith(('BabyAI-', 'MiniGrid-')):
      raise ValueError(
        "id must be an environment of minigrid, such as 'BabyAI-GoToLocal-v0'"
        f" or 'MiniGrid-DoorKey-6x6-v0', got {self.id!r}"
      )

  @property
  def system(self) -> str:
    return RULES if self.rules else ''

  def name(self) -> str:
    """Returns minigrid-<id>-<hash of all settings>."""
    return task_sampling.name(f'minigrid-{self.id}', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[base.HostTask]:
    """Yields distinct rooms, with the bot's solution if it has one."""
    rng = splits.split_rng(split, seed)
    env = self.env()
    return splits.distinct_tasks(
      lambda: env.draw(int(rng.integers(2**31))), env.solve, split, count
    )

  def env(self) -> 'GridEnv':
    try:
      import gymnasium
      import minigrid  # noqa: F401  registers its environments
    except ModuleNotFoundError as error:
      raise base.missing('minigrid', 'games') from error
    if self.id not in gymnasium.registry:
      raise ValueError(
        f'id={self.id!r} is not an environment of the installed minigrid; see'
        ' gymnasium.registry'
      )
    return GridEnv(gymnasium.make(self.id).unwrapped)


class GridEnv:
  """Plays the rooms of one minigrid environment."""

  def __init__(self, world: Any):
    self.world = world

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    """Begins a room; objects that move on their own follow `seed`."""
    with contextlib.redirect_stdout(io.StringIO()):  # rooms it threw away
      self.seen, _ = self.world.reset(seed=task['seed'])
    self.world.np_random = np.random.default_rng(seed)
    return self._observe()

  def step(self, message: str) -> base.Step:
    """Takes one action; an unknown one changes nothing."""
    name = message.strip().lower()
    if name not in ACTIONS:
      return base.Step(self._observe(), invalid=True)
    action = ACTIONS.index(name)
    self.seen, reward, ended, late, _ = self.world.step(action)
    done = bool(ended or late)
    text = '' if done else self._observe()
    return base.Step(text, float(reward), done, float(reward > 0))

  def close(self) -> None:
    """Closes the package's environment."""
    self.world.close()

  def draw(self, seed: int) -> tuple[str, dict[str, int]]:
    """Draws a task; its key identifies the room and its mission."""
    task = {'seed': seed}
    self.reset(task, 0)
    world = self.world
    start = (tuple(map(int, world.agent_pos)), int(world.agent_dir))
    room = world.grid.encode().tobytes() + repr((start, world.mission)).encode()
    return splits.content_key(room), task

  def solve(self, key: str, task: dict[str, int]) -> base.HostTask:
    """Returns the task with the solution of BabyAI's bot, if it has one."""
    from minigrid.envs.babyai.core.roomgrid_level import RoomGridLevel
    from minigrid.utils.baby_ai_bot import BabyAIBot

    self.reset(task, 0)
    if not isinstance(self.world, RoomGridLevel):
      return base.HostTask(task, (), key)
    bot, demo, reply = BabyAIBot(self.world), [], base.Step('')
    while not reply.done:
      demo.append(ACTIONS[bot.replan()])
      reply = self.step(demo[-1])
    return base.HostTask(task, tuple(demo) if reply.score else (), key)

  def _observe(self) -> str:
    """Renders mission, carried object and view, the agent at its foot."""
    carried = self.world.carrying
    name = f'{carried.color} {carried.type}' if carried else 'nothing'
    view = self.seen['image'].transpose(1, 0, 2)  # [row, column, 3]
    rows = [[_cell(*map(int, cell)) for cell in row] for row in view]
    rows[-1][len(rows[-1]) // 2] = '^ '
    grid = '\n'.join(' '.join(row).rstrip() for row in rows)
    return f'mission: {self.seen["mission"]}\ncarrying: {name}\n{grid}'


def _cell(thing: int, colour: int, state: int) -> str:
  letter = _OBJECTS[thing]
  if letter == 'D':
    letter = _DOORS[state]
  return letter + (' ' if letter in '?.#' else _COLOURS[colour])
