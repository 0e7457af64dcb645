"""TextWorld's coin collector: find the coin in a house of rooms and take it.

The world's rules, its texts and its parser are those of the package textworld
(arXiv 1806.11532); the maps are drawn by `maps`. With `brief` the world is
TextWorld's logic alone and an observation a few characters, made so that the
last one is all that an agent need see; without, it is the compiled game and
its prose, which hides what was seen before.
"""

import dataclasses
import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar

from agentrl import domain
from agentrl.env import base, splits, task_sampling
from agentrl.env.external.textworld import maps

RULES = (
  'Find the coin and take it. Of each side you see: ? an exit not taken yet,'
  ' + one with such exits behind it, . one without, - none. Say n, e, s, w or'
  ' take coin.'
)
OBJECTIVE = 'Find the coin and take it.'
_COMMAND = re.compile(r"[a-z' -]{1,60}")
# Words to the interpreter, not to the world, and what joins two commands.
_BARRED = frozenset(
  ('again', 'brief', 'g', 'notify', 'oops', 'pronouns', 'q', 'quit', 'restart',
   'restore', 'save', 'script', 'superbrief', 'then', 'transcript', 'undo',
   'verbose', 'verify', 'version')
)  # fmt: skip
_PROMPT = re.compile(r'\n*>\s*-=.*', re.DOTALL)


@dataclasses.dataclass(frozen=True)
class CoinCollector:
  """A task is a map: {'way', 'ends', 'names'}; see `maps.CoinMap`.

  Levels are TextWorld's, 100 d + l: l rooms on the way, d dead ends at each.
  """

  low: Annotated[int, domain.Whole(1, 300, most='high')] = (
    103  # level of the easiest tasks
  )
  high: Annotated[int, domain.Whole(1, 300)] = (
    105  # and of the hardest; equally many of each
  )
  brief: bool = True  # a few characters, or the game's prose
  admissible: bool = False  # tells the commands that the world understands
  rules: bool = True  # tells how to play, before the first observation
  folder: domain.Place = ''  # of compiled games; '': a temporary one

  worker: ClassVar[str] = 'process'  # the interpreter is C

  def __post_init__(self):
    maps.size(self.low)
    maps.size(self.high)
    if self.low > self.high:
      raise ValueError(
        f'low={self.low} is above high={self.high}; use two levels in order'
      )

  @property
  def columns(self) -> tuple[str, ...]:
    """progress = V(after) - V(before), V = γ^(commands left)."""
    return ('progress',)

  @property
  def system(self) -> str:
    if not self.rules:
      return ''
    return RULES if self.brief else OBJECTIVE

  def name(self) -> str:
    """Returns textworld_coin-<levels>-<hash of all settings but the folder>."""
    settings = dataclasses.replace(self, folder='')
    return task_sampling.name(
      f'textworld_coin-{self.low}-{self.high}', settings
    )

  def tasks(self, split: str, count: int, seed: int) -> Iterator[base.HostTask]:
    """Draws distinct maps with the shortest way each; see `base.EnvFamily`."""
    rng = splits.split_rng(split, seed)

    def draw():
      """Returns a key and (map, seed of its names)."""
      plan = maps.draw(int(rng.integers(self.low, self.high + 1)), rng)
      return plan.key(), (plan, int(rng.integers(2**31)))

    def finish(key: str, draft: tuple[maps.CoinMap, int]) -> base.HostTask:
      plan, names = draft
      steps = [x if self.brief else f'go {maps.WORDS[x]}' for x in plan.way]
      task = {**dataclasses.asdict(plan), 'names': names}
      return base.HostTask(task, (*steps, 'take coin'), key)

    return splits.distinct_tasks(draw, finish, split, count)

  def env(self) -> 'CoinEnv':
    try:
      importlib.import_module('textworld')
    except ModuleNotFoundError as error:
      raise base.missing('textworld', 'games') from error
    from agentrl.env.external.textworld import games

    play: Callable[..., Any] = games.logic
    if not self.brief:
      play = games.compiled(self.folder, OBJECTIVE)
    return CoinEnv(self, play)


class CoinEnv:
  """Plays the maps of a family, with what starts a game for one.

  A message is invalid where it is no action that is possible there.
  """

  def __init__(self, family: CoinCollector, play: Callable[..., Any]):
    self.family, self.play = family, play
    self.game: Any = None  # of textworld, which has no types

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    """Returns the first observation; nothing is random here."""
    del seed
    self.close()
    plan = maps.CoinMap(task['way'], task['ends'])
    self.rooms, self.coin = plan.exits(), len(plan.way)
    self.far = maps.to_coin(self.rooms, self.coin)
    self.game, self.names = self.play(plan, task['names'])
    self.seen = set()
    self.state = self.game.reset()
    return self._observe()

  def step(self, message: str) -> base.Step:
    """Plays one command -> its result."""
    before, value = self.state, self._value()
    command = message.strip().lower()
    # What is not safe for the interpreter, which is in C, does not reach it.
    barred = not _BARRED.isdisjoint(re.findall('[a-z]+', command))
    if barred or not _COMMAND.fullmatch(command):
      return base.Step(self._observe(), invalid=True, info={'progress': 0.0})
    self.state, _, done = self.game.step(_spell(message))
    return base.Step(
      text='' if done else self._observe(),
      reward=float(self.state.score - (before.score or 0)),
      done=bool(done),
      score=float(bool(self.state.won)),
      invalid=self.state.moves == before.moves,
      info={'progress': self._value() - value},
    )

  def close(self) -> None:
    """Ends the interpreter."""
    if self.game is not None:
      self.game.close()
      self.game = None

  def _here(self) -> int:
    """Returns the player's room, from the game's facts."""
    for fact in self.state.facts:
      if fact.name == 'at' and fact.arguments[0].type == 'P':
        return self.names[fact.arguments[1].name]
    raise RuntimeError('the world has no player; its rules were changed')

  def _value(self) -> float:
    """Returns γ^(commands left), 1 once won."""
    left = 0 if self.state.won else self.far[self._here()] + 1
    return maps.GAMMA**left

  def _observe(self) -> str:
    here = self._here()
    self.seen.add(here)
    if self.family.brief:
      coin = ' coin' if here == self.coin else ''
      text = maps.marks(self.rooms, self.seen, here) + coin
    else:
      # The game's text, without its banner, prompt and empty lines.
      prose = _PROMPT.sub('', self.state.feedback.split(OBJECTIVE)[-1])
      text = '\n'.join(line for line in prose.splitlines() if line.strip())
    if self.family.admissible:
      text += '\nYou can: ' + ', '.join(self.state.admissible_commands)
    return text


def _spell(message: str) -> str:
  """Spells the command as TextWorld does: 'n' and 'north' are 'go north'."""
  words = message.lower().split()
  side = ' '.join(words[words[:1] == ['go'] :])
  side = maps.WORDS.get(side, side)
  return f'go {side}' if side in maps.WORDS.values() else ' '.join(words)
