"""ALFWorld's household games (arXiv 2010.03768), from data the user has.

The package alfworld plays them; its games are downloaded apart, by the command
alfworld-download. Written against alfworld 0.4.2 and its layout of files; it
was not run here on those games, which are not to be had from a package index.
"""

import dataclasses
import importlib
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from agentrl import domain
from agentrl.env import base, splits, task_sampling
from agentrl.runtime import text_files

TESTS = ('valid_seen', 'valid_unseen')
_GAME = 'game.tw-pddl'


@dataclasses.dataclass(frozen=True)
class AlfWorld:
  """A task is {'game'}: the path of its file below the data."""

  data: domain.Place = (
    ''  # folder that holds train, valid_seen; '': by ALFWORLD_DATA
  )
  held_out: Annotated[str, domain.OneOf(*TESTS)] = (
    'valid_unseen'  # which games the test split holds, of TESTS
  )
  admissible: bool = True  # tells the actions that are possible

  columns: ClassVar[tuple[str, ...]] = ()
  system: ClassVar[str] = ''  # the first observation tells the task
  worker: ClassVar[str] = 'process'  # planners in C compute the world

  def __post_init__(self):
    if self.held_out not in TESTS:
      raise ValueError(
        f'held_out={self.held_out!r} is unknown; use one of {TESTS}'
      )

  def name(self) -> str:
    """Returns alfworld-<test games>-<hash of all settings but the folder>."""
    settings = dataclasses.replace(self, data='')
    return task_sampling.name(f'alfworld-{self.held_out}', settings)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[base.HostTask]:
    """Returns games that can be solved, with a walkthrough where they have one.

    The splits are the data's own folders; a key is the game's path in them.
    """
    rng = splits.split_rng(split, seed)
    root = self.root()
    folder = root / ('train' if split == 'train' else self.held_out)
    games = sorted(folder.rglob(_GAME))
    total = 0
    for i in rng.permutation(len(games)).tolist():
      if total == count:
        return
      game = text_files.read_json(games[i])
      if game.get('solvable', False):
        total += 1
        path = games[i].relative_to(root).as_posix()
        demo = tuple(game.get('walkthrough') or ())
        yield base.HostTask(
          {'game': path}, demo, splits.content_key(path.encode())
        )
    if total < count:
      raise ValueError(
        f'{folder} holds {total} games that can be solved, and {count} were'
        ' asked for; ask for fewer, or get more with alfworld-download'
      )

  def root(self) -> pathlib.Path:
    """Returns the folder of the games.

    Raises:
      ValueError: there is none.
    """
    cache = os.environ.get('ALFWORLD_DATA', '')
    root = pathlib.Path(self.data or os.path.join(cache, 'json_2.1.1'))
    if not (self.data or cache) or not (root / 'train').is_dir():
      raise ValueError(
        f'no games of ALFWorld in {str(root)!r}; run alfworld-download, and set'
        ' data to the folder json_2.1.1 or ALFWORLD_DATA to the one above it'
      )
    return root

  def env(self) -> 'AlfEnv':
    root = self.root()
    try:
      importlib.import_module('alfworld')
    except ModuleNotFoundError as error:
      raise ValueError(
        "ALFWorld's games need the package alfworld, which is not installed;"
        ' run pip install alfworld'
      ) from error
    return AlfEnv(self, root)


class AlfEnv:
  """Plays the games in a folder."""

  def __init__(self, family: AlfWorld, root: pathlib.Path):
    self.family, self.root = family, root
    self.game: Any = None  # of textworld, which has no types

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    """Returns the task and the first observation; nothing is random here."""
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler

    del seed
    self.close()
    infos = textworld.EnvInfos(
      won=True, admissible_commands=True, feedback=True
    )
    self.game = textworld.start(
      str(self.root / task['game']), infos, [AlfredDemangler(shuffle=False)]
    )
    self.state = self.game.reset()
    return self._observe()

  def step(self, message: str) -> base.Step:
    """Plays one action, among those possible -> its result."""
    action = message.strip()
    if action not in self.state.admissible_commands:
      return base.Step(self._observe(), invalid=True)
    self.state, _, _ = self.game.step(action)
    won = bool(self.state.won)
    text = '' if won else self._observe()
    return base.Step(text, float(won), won, float(won))

  def close(self) -> None:
    """Ends the game."""
    if self.game is not None:
      self.game.close()
      self.game = None

  def _observe(self) -> str:
    text = self.state.feedback.strip()
    if self.family.admissible:
      text += '\nYou can: ' + ', '.join(sorted(self.state.admissible_commands))
    return text
