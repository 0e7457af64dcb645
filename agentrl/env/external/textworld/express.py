"""The games of the package textworld-express (arXiv 2208.01174), in Java.

The package keeps tasks of its own for training and for test, a thousand each
of a game; they are told apart by its number for them.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from agentrl import domain
from agentrl.env import base, splits, task_sampling
from agentrl.env.external import java

GAMES = (
  'arithmetic',
  'coin',
  'cookingworld',
  'mapreader',
  'peckingorder',
  'simonsays',
  'sorting',
  'twc',
)
# Here the package tells another way each time it is asked.
_WAYLESS = ('coin', 'twc')
_UNKNOWN = 'Unknown action'


@dataclasses.dataclass(frozen=True)
class TextWorldExpress:
  """A task is {'fold', 'seed'}: the package's split, and its number there."""

  game: Annotated[str, domain.OneOf(*GAMES)] = 'coin'  # one of GAMES
  settings: str = ''  # the package's, as 'numLocations=5,includeDoors=0'
  admissible: bool = False  # tells the actions that are possible

  columns: ClassVar[tuple[str, ...]] = ()
  system: ClassVar[str] = ''  # the first observation tells the task
  worker: ClassVar[str] = 'process'  # Java may hang

  def __post_init__(self):
    if self.game not in GAMES:
      raise ValueError(
        f'game={self.game!r} is unknown; choose from {list(GAMES)}'
      )

  def name(self) -> str:
    """Returns textworld_express-<game>-<hash of all settings>."""
    return task_sampling.name(f'textworld_express-{self.game}', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[base.HostTask]:
    """Draws distinct tasks with the package's own way; see `base.EnvFamily`."""
    splits.split_rng(split, seed)  # before Java starts
    with contextlib.closing(self.env()) as env:
      for number in java.chosen(env.numbers(split), split, count, seed):
        task = {'fold': split, 'seed': number}
        key = splits.content_key(repr((self.game, task)).encode())
        yield base.HostTask(task, env.way(task), key)

  def env(self) -> 'ExpressEnv':
    try:
      import textworld_express
    except ModuleNotFoundError as error:
      raise base.missing('textworld-express', 'java') from error
    java.needed('textworld-express')
    world = textworld_express.TextWorldExpressEnv(envStepLimit=2**31)
    try:
      world.load(self.game, self.settings)
    except ValueError as error:
      java.stop(world)
      raise ValueError(
        f'settings={self.settings!r} do not fit game={self.game!r}: {error}'
      ) from error
    return ExpressEnv(self, world)


class ExpressEnv:
  """Plays a game's tasks in a Java process."""

  def __init__(self, family: TextWorldExpress, world: Any):
    self.family, self.world = family, world

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    """Returns the task and the first observation; nothing is random here."""
    del seed
    _, self.infos = self._start(task)
    return f'{self.infos["taskDescription"].strip()}\n{self._observe()}'

  def step(self, message: str) -> base.Step:
    """Plays one action -> its result."""
    _, reward, done, self.infos = self.world.step(java.sanitize(message))
    score = min(max(float(self.infos['score']), 0.0), 1.0)
    invalid = self.infos['observation'].startswith(_UNKNOWN)
    text = '' if done else self._observe()
    return base.Step(text, float(reward), bool(done), score, invalid)

  def close(self) -> None:
    """Ends the Java process."""
    if self.world is not None:
      java.stop(self.world)
      self.world = None

  def numbers(self, split: str) -> list[int]:
    """Returns the package's tasks of a split."""
    if split == 'train':
      return self.world.getValidSeedsTrain()
    return self.world.getValidSeedsTest()

  def way(self, task: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the package's own solution of a task, where it works."""
    if self.family.game in _WAYLESS:
      return ()
    self._start(task, gold=True)
    way = tuple(self.world.getGoldActionSequence())
    self.reset(task, 0)
    replies = [self.step(message) for message in way]
    won = replies and replies[-1].score == 1
    return way if won and not any(r.invalid for r in replies) else ()

  def _start(self, task: Mapping[str, Any], gold: bool = False):
    family = self.family
    return self.world.reset(
      seed=task['seed'],
      gameFold=task['fold'],
      gameName=family.game,
      gameParams=family.settings,
      generateGoldPath=gold,
    )

  def _observe(self) -> str:
    text = self.infos['observation'].strip()
    if self.family.admissible:
      text += '\nYou can: ' + ', '.join(sorted(self.infos['validActions']))
    return text
