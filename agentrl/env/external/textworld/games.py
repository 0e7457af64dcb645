"""Games of the package textworld for a map: its logic, or compiled prose."""

import functools
import hashlib
import os
import pathlib
import shutil
import tempfile
import warnings
from collections.abc import Callable

import textworld
from textworld.challenges.tw_coin_collector import coin_collector
from textworld.generator.data import KnowledgeBase
from textworld.generator.game import Event, Quest

from agentrl.env import splits
from agentrl.env.external.textworld import maps

_TOLD = textworld.EnvInfos(
  facts=True, moves=True, admissible_commands=True, won=True, score=True
)
# A game and the place of each room's name.
Play = Callable[
  [maps.CoinMap, int], tuple[textworld.Environment, dict[str, int]]
]


@functools.cache
def _knowledge() -> KnowledgeBase:
  return KnowledgeBase.load(coin_collector.KB_PATH)


@functools.lru_cache(maxsize=256)
def build(plan: maps.CoinMap, names: int, objective: str) -> textworld.Game:
  """Builds the coin collector's game on a map; `names` seeds the room names."""
  options = textworld.GameOptions()
  options.seeds = names
  options.kb = _knowledge()
  options.grammar.allowed_variables_numbering = True  # for many rooms
  maker = textworld.GameMaker(options)
  places = plan.exits()
  rooms = [maker.new_room() for _ in places]
  for here, exits in enumerate(places):
    for side, there in exits.items():
      if here < there:
        back = rooms[there].exits[maps.WORDS[maps.opposite(side)]]
        maker.connect(rooms[here].exits[maps.WORDS[side]], back)
  maker.set_player(rooms[0])
  coin = maker.new(type='o', name='coin')
  rooms[len(plan.way)].add(coin)
  won = maker.new_fact('in', coin, maker.inventory)
  maker.quests = [Quest(win_events=[Event(conditions={won})])]
  game = maker.build()
  game.objective = objective  # TextWorld's own would tell the way
  return game


def _places(game: textworld.Game, plan: maps.CoinMap) -> dict[str, int]:
  return {game.infos[f'r_{i}'].name: i for i in range(len(plan.exits()))}


def logic(plan: maps.CoinMap, names: int):
  """Returns a game of TextWorld's logic alone: no prose, nothing to compile."""
  game = build(plan, names, '')
  with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, 'game.json')
    game.save(path)
    return textworld.start(path, _TOLD), _places(game, plan)


def compiled(folder: str, objective: str) -> Play:
  """Starts compiled games, cached in a folder: seconds each, once."""
  own = f'agentrl-textworld-{os.getuid()}'
  root = pathlib.Path(folder or os.path.join(tempfile.gettempdir(), own))

  def play(plan: maps.CoinMap, names: int):
    game = build(plan, names, objective)
    content = repr((plan, names, textworld.__version__))
    home = root / splits.content_key(content.encode())
    if not _whole(home):
      _compile(game, home)
    with warnings.catch_warnings():  # the score is TextWorld's to tell
      warnings.filterwarnings('ignore', message='.*is not fully supported')
      env = textworld.start(str(home / 'game.z8'), _TOLD)
    return env, _places(game, plan)

  return play


def _digest(home: pathlib.Path) -> str:
  files = [home / 'game.json', home / 'game.z8']
  return hashlib.sha256(b''.join(f.read_bytes() for f in files)).hexdigest()


def _whole(home: pathlib.Path) -> bool:
  """Returns True if a game's file is complete: a torn one crashes C."""
  try:
    return (home / 'sum').read_text() == _digest(home)
  except OSError:
    return False


def _compile(game: textworld.Game, home: pathlib.Path) -> None:
  """Writes the game beside its home, then moves it there at once."""
  home.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
  draft = pathlib.Path(tempfile.mkdtemp(dir=home.parent))
  options = textworld.GameOptions()
  options.path = str(draft / 'game.z8')
  textworld.generator.compile_game(game, options)
  (draft / 'sum').write_text(_digest(draft))
  shutil.rmtree(home, ignore_errors=True)
  try:
    draft.rename(home)
  except OSError:  # another process was first
    shutil.rmtree(draft)
