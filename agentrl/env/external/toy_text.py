"""Gymnasium's toy games as text: lake, taxi, blackjack and cliff.

Rules, rewards and randomness are the package's; where it always starts at one
place, or draws the start itself, the start is the task here. It ends no game
for its length: turns are for the rollout to count.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from agentrl import domain
from agentrl.env import base, splits, task_sampling


class Game(NamedTuple):
  """Settings of a toy game."""

  id: str  # Gymnasium's
  actions: tuple[str, ...]  # in its order
  prize: float  # the reward of an end that is a success; others earn less
  rules: str


GAMES = {
  'frozen_lake': Game(
    'FrozenLake-v1',
    ('left', 'down', 'right', 'up'),
    1.0,
    'Walk from S to G over the ice F; you are P, and H are holes.',
  ),
  'taxi': Game(
    'Taxi-v4',
    ('south', 'north', 'east', 'west', 'pickup', 'dropoff'),
    20.0,
    'You drive the taxi T. Pick the passenger up and drop it off at its goal;'
    ' | is a wall.',
  ),
  'blackjack': Game(
    'Blackjack-v1',
    ('stick', 'hit'),
    1.0,
    'Beat the dealer without going over 21.',
  ),
  'cliff_walking': Game(
    'CliffWalking-v1',
    ('up', 'right', 'down', 'left'),
    -1.0,
    'Walk to G; you are P, and from the cliff C you fall back to the start.',
  ),
}
_PLACES = ('R', 'G', 'Y', 'B', 'taxi')  # of Taxi's passenger


@dataclasses.dataclass(frozen=True)
class ToyText:
  """A task is the start: {'map'}, {'player', 'dealer'} or {'state'}."""

  game: Annotated[str, domain.OneOf(*GAMES)] = 'frozen_lake'  # one of GAMES
  slippery: bool = False  # frozen_lake, cliff_walking; taxi: rain
  size: Annotated[int, domain.Whole(2, 64)] = (
    4  # frozen_lake: cells along a side
  )
  frozen: domain.Share = 0.8  # frozen_lake: probability of ice
  rules: bool = True  # tells how to play, before the first observation

  columns: ClassVar[tuple[str, ...]] = ()
  worker: ClassVar[str] = 'process'  # it computes

  def __post_init__(self):
    if self.game not in GAMES:
      raise ValueError(
        f'game={self.game!r} is unknown; choose from {sorted(GAMES)}'
      )
    if self.size < 2 or not 0 < self.frozen <= 1:
      raise ValueError(
        f'size={self.size}, frozen={self.frozen} make no lake; use a size of at'
        ' least 2 and a probability above 0'
      )

  @property
  def system(self) -> str:
    game = GAMES[self.game]
    actions = ', '.join(game.actions)
    return f'{game.rules} Say one of: {actions}.' if self.rules else ''

  def name(self) -> str:
    """Returns toy_text-<game>-<hash of all settings>."""
    return task_sampling.name(f'toy_text-{self.game}', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[base.HostTask]:
    """Returns distinct starts, with a shortest way where nothing is random."""
    rng = splits.split_rng(split, seed)

    def draw() -> tuple[str, dict[str, Any]]:
      """Returns a key and a task."""
      if self.game == 'frozen_lake':
        holes = rng.random((self.size, self.size)) >= self.frozen
        plane = np.where(holes, ord('H'), ord('F')).astype(np.uint8)
        plane.flat[[0, -1]] = ord('S'), ord('G')
        rows = [row.tobytes().decode() for row in plane]
        return splits.symmetric_key(plane), {'map': rows}
      if self.game == 'blackjack':  # cards as drawn from an endless deck
        cards = np.minimum(rng.integers(1, 14, 4), 10).tolist()
        task: dict[str, Any] = {
          'player': sorted(cards[:2]),
          'dealer': cards[2:],
        }
      elif self.game == 'taxi':  # row, column, passenger's place, its goal
        row, column = rng.integers(5, size=2).tolist()
        places = rng.choice(4, 2, replace=False).tolist()
        task = {'state': ((row * 5 + column) * 5 + places[0]) * 4 + places[1]}
      else:  # above the cliff, or where Gymnasium starts
        task = {'state': int(rng.integers(37))}
      return splits.content_key(repr(task).encode()), task

    def finish(key: str, task: dict[str, Any]) -> base.HostTask | None:
      if self.slippery or self.game == 'blackjack':
        return base.HostTask(task, (), key)
      demo = self.env().way(task)
      return None if demo is None else base.HostTask(task, demo, key)

    return splits.distinct_tasks(draw, finish, split, count)

  def env(self) -> 'ToyEnv':
    try:
      import gymnasium
    except ModuleNotFoundError as error:
      raise base.missing('gymnasium', 'games') from error
    return ToyEnv(self, gymnasium.make)


class ToyEnv:
  """Plays the starts of a family."""

  def __init__(self, family: ToyText, make):
    self.family, self.game, self.make = family, GAMES[family.game], make
    self.settings: dict[str, Any] | None = None
    self.world: Any = None  # of gymnasium, by the attributes of each game

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    """Returns the first observation."""
    settings: dict[str, Any] = {}
    if self.family.game == 'frozen_lake':
      settings['desc'] = list(task['map'])
    if self.family.game == 'taxi':
      settings['is_rainy'] = self.family.slippery
    elif self.family.game != 'blackjack':
      settings['is_slippery'] = self.family.slippery
    if settings != self.settings:  # a town takes milliseconds to make
      self.world = self.make(self.game.id, **settings).unwrapped
      self.settings = settings
    self.world.reset(seed=seed)
    if 'state' in task:
      self.world.s = task['state']
    if 'player' in task:
      self.world.player = list(task['player'])
      self.world.dealer = list(task['dealer'])
    return self._observe()

  def step(self, message: str) -> base.Step:
    """Plays one action -> its result; others change nothing."""
    name = message.strip().lower()
    if name not in self.game.actions:
      return base.Step(self._observe(), invalid=True)
    action = self.game.actions.index(name)
    _, reward, done, _, _ = self.world.step(action)
    score = float(done and reward >= self.game.prize)
    text = '' if done else self._observe()
    return base.Step(text, float(reward), bool(done), score)

  def close(self) -> None:
    """Closes nothing."""

  def way(self, task: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Finds a shortest way to a success where nothing is random, else None."""
    self.reset(task, 0)
    ways: dict[int, tuple[str, ...]] = {int(self.world.s): ()}
    queue = list(ways)
    for state in queue:
      for action, name in enumerate(self.game.actions):
        ((_, after, reward, done),) = self.world.P[state][action]
        if done and reward >= self.game.prize:
          return (*ways[state], name)
        if not done and int(after) not in ways:
          ways[int(after)] = (*ways[state], name)
          queue.append(int(after))
    return None

  def _observe(self) -> str:
    world, game = self.world, self.family.game
    if game == 'blackjack':  # the table as a player sees it
      total, dealer, ace = world._get_obs()
      hand = f'you: {int(total)}' + (' with an ace' if ace else '')
      return f'{hand}\ndealer: {int(dealer)}'
    if game == 'taxi':  # the map with T for it, and where to go
      row, column, passenger, goal = map(int, world.decode(world.s))
      cells = world.desc.astype(str)
      cells[1 + row, 2 * column + 1] = 'T'
      town = '\n'.join(map(''.join, cells))
      return f'{town}\npassenger: {_PLACES[passenger]}\ngoal: {_PLACES[goal]}'
    if game == 'frozen_lake':
      cells = world.desc.astype(str)
    else:
      cells = np.where(world._cliff, 'C', '.')  # it tells in no other way
      cells[-1, -1] = 'G'
    cells.flat[int(world.s)] = 'P'
    return '\n'.join(map(''.join, cells))
