"""Games of textarena (arXiv 2504.11442), solo or against random play.

A two-player game is played in either seat against an opponent that draws its
legal moves uniformly, or in both, each a conversation of its own.
"""

import contextlib
import copy
import dataclasses
import io
import random
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np

from agentrl.domain import OneOf
from agentrl.env import base, task_sampling
from agentrl.env.seats import RefereedEnv, Ruling

# Two-player games: everything that their opponent may try to say.
_CELLS = tuple(f'[{i}]' for i in range(25))
MOVES = {
  'ConnectFour': _CELLS[:7],
  'IteratedMatchingPennies': ('[heads]', '[tails]'),
  'IteratedRockPaperScissors': ('[rock]', '[paper]', '[scissors]'),
  'KuhnPoker': ('[check]', '[bet]', '[call]', '[fold]'),
  'Nim': tuple(f'[{i} {n}]' for i in range(5) for n in range(1, 8)),
  'Othello': tuple(f'[{i}, {j}]' for i in range(8) for j in range(8)),
  'PigDice': ('[roll]', '[hold]'),
  'SimpleTak': _CELLS,
  'TicTacToe': _CELLS[:9],
  'WildTicTacToe': tuple(f'[{m} {i}]' for m in 'XO' for i in range(9)),
}
# Of the others some break on a wrong move, or are seconds in the making.
ALONE = (
  '2048', 'Bandit', 'Blackjack', 'Crosswords', 'FifteenPuzzle', 'FrozenLake',
  'GuessTheNumber', 'LightsOut', 'LogicPuzzle', 'Mastermind', 'Minesweeper',
  'PegJump', 'Secretary', 'Set', 'Sokoban', 'Sudoku', 'TowerOfHanoi',
)  # fmt: skip
# They load word lists, or ask a model, over the network.
NETWORKED = (
  'GuessWho',
  'Hangman',
  'TwentyQuestions',
  'WordLadder',
  'WordSearch',
  'Wordle',
)


RANDOM, SELF = 'random', ''
PLAYERS = ('player 0', 'player 1')


@dataclasses.dataclass(frozen=True)
class TextArena:
  """A task is {'seed', 'player'}: seed of the game and seat of the agent.

  Where the policy has both seats there is no 'player'.

  The package does not expose what it draws. Tasks differ by seed and seat, so
  in a game with few positions two tasks may coincide.
  """

  id: str = 'TowerOfHanoi-v0'  # the package's, with its variants
  opponent: Annotated[
    str,
    OneOf(RANDOM, SELF),
    "who has the other seat of a two-player game; '': the policy itself",
  ] = RANDOM

  columns: ClassVar[tuple[str, ...]] = ()
  system: ClassVar[str] = ''  # the game tells its rules itself
  worker: ClassVar[str] = 'process'  # it computes; solvers in it may hang

  def __post_init__(self):
    game = self.id.split('-')[0]
    if game in NETWORKED:
      raise ValueError(
        f'id={self.id!r} needs the network while it plays; choose one of'
        f' {sorted((*ALONE, *MOVES))}'
      )
    if game not in MOVES and game not in ALONE:
      raise ValueError(
        f'id must be one of {sorted((*ALONE, *MOVES))}, such as TicTacToe-v0,'
        f' got {self.id!r}'
      )
    if self.opponent == SELF and game not in MOVES:
      raise ValueError(
        f"opponent must be {RANDOM!r} for a game of one player, got '' and"
        f' id={self.id!r}'
      )

  @property
  def seat_names(self) -> tuple[str, ...]:
    return PLAYERS if self.opponent == SELF else ()

  def seat_system(self, seat: str) -> str:
    """Returns '': the game tells each player its rules."""
    del seat
    return ''

  def name(self) -> str:
    """Returns textarena-<id>-<hash of all settings>."""
    return task_sampling.name(f'textarena-{self.id}', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[base.HostTask]:
    """Yields distinct tasks, without demonstrations; see `base.EnvFamily`."""
    seats = 2 if self.id.split('-')[0] in MOVES else 1
    seats = seats if self.opponent == RANDOM else 0
    return task_sampling.seeds(split, count, seed, seats=seats)

  def env(self) -> 'ArenaEnv | RefereedEnv':
    try:
      import textarena
    except ModuleNotFoundError as error:
      raise base.missing('textarena', 'games') from error
    from textarena.envs.registration import ENV_REGISTRY

    raw = self.id.removesuffix('-raw') + '-raw'
    if raw not in ENV_REGISTRY:
      raise ValueError(
        f'id={self.id!r} is not a game of the installed textarena; see'
        ' textarena.envs.registration.ENV_REGISTRY'
      )
    game = Arena(lambda: textarena.make(raw), self.id.split('-')[0])
    if self.opponent == SELF:
      return RefereedEnv(ArenaReferee(game), PLAYERS)
    return ArenaEnv(game)


class Arena:
  """A game with generators that no other environment shares."""

  def __init__(self, make, game: str):
    self.make, self.moves = make, MOVES.get(game, ())

  def reset(self, seed: int) -> None:
    """Begins a game of this seed; within `alone`."""
    self.world = self.make()
    players = 2 if self.moves else 1
    self.world.reset(num_players=players, seed=seed)

  @property
  def player(self) -> int:
    """Who moves next."""
    return self.world.state.current_player_id

  def step(self, message: str) -> bool:
    """Plays a move: -> whether the game is over; within `alone`."""
    move = message if '[' in message or ']' in message else f'[{message}]'
    done, _ = self.world.step(move)
    return bool(done)

  def earned(self, player: int) -> float:
    """Returns what a player has got when the game is over."""
    return float((self.world.state.rewards or {}).get(player, 0))

  def refused(self, player: int) -> bool:
    """Returns whether the player's last move was illegal."""
    state = self.world.state
    ended = bool(state.game_info[player]['invalid_move'])
    waits = state.current_player_id == player and state.error_count > 0
    return ended or waits

  def observe(self, player: int) -> str:
    """Returns the game's new messages to the player, who moves next."""
    _, messages = self.world.get_observation()
    return '\n'.join(text.strip() for who, text, _ in messages if who != player)

  @contextlib.contextmanager
  def alone(self, seed: int | None = None):
    """Swaps the package's global generators for this game's own.

    Args:
      seed: that they begin with; None: they go on
    """
    if seed is not None:
      self.dice = random.Random(seed).getstate()
      self.arrays = np.random.RandomState(seed).get_state()
    outer = random.getstate(), np.random.get_state()
    random.setstate(self.dice)
    np.random.set_state(self.arrays)
    try:
      with contextlib.redirect_stdout(io.StringIO()):
        yield
    finally:
      self.dice, self.arrays = random.getstate(), np.random.get_state()
      random.setstate(outer[0])
      np.random.set_state(outer[1])


class ArenaReferee:
  """Asks both players in turn; see `Referee`."""

  def __init__(self, game: Arena):
    self.game = game

  def reset(self, task: Mapping[str, Any], seed: int) -> Ruling:
    """Begins a game; all that is random follows from the task."""
    del seed
    with self.game.alone(task['seed']):
      self.game.reset(task['seed'])
      return self._ask()

  def step(self, message: str) -> Ruling:
    game, mover = self.game, self.game.player
    with game.alone():
      done = game.step(message)
      invalid = game.refused(mover)
      if not done:
        return self._ask()._replace(invalid=invalid)
    earned = {name: game.earned(i) for i, name in enumerate(PLAYERS)}
    score = {name: min(max(x, 0.0), 1.0) for name, x in earned.items()}
    return Ruling('', reward=earned, score=score, invalid=invalid)

  def close(self) -> None:
    """Closes nothing."""

  def _ask(self) -> Ruling:
    player = self.game.player
    return Ruling(PLAYERS[player], self.game.observe(player))


class ArenaEnv:
  """Plays a game alone, or in one seat against random play."""

  def __init__(self, game: Arena):
    self.game = game

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    """Begins a game; `seed` draws the opponent's moves."""
    self.me, self.opponent = task['player'], np.random.default_rng(seed)
    with self.game.alone(task['seed']):
      self.game.reset(task['seed'])
      self._oppose()
      return self.game.observe(self.me)

  def step(self, message: str) -> base.Step:
    """Plays a move and the opponent's reply."""
    game = self.game
    with game.alone():
      done = game.step(message)
      refused = game.refused(self.me)
      if not done:
        done = self._oppose()
      text = '' if done else game.observe(self.me)
    reward = game.earned(self.me) if done else 0.0
    return base.Step(text, reward, done, min(max(reward, 0.0), 1.0), refused)

  def close(self) -> None:
    """Closes nothing."""

  def _oppose(self) -> bool:
    """Plays the opponent's moves; returns whether the game is over."""
    done, game = False, self.game
    while not done and game.player != self.me:
      other = game.player
      for i in self.opponent.permutation(len(game.moves)):
        before, game.world = game.world, copy.deepcopy(game.world)
        done, _ = game.world.step(game.moves[i])
        if not game.refused(other):
          break
        game.world, done = before, False
      else:
        raise RuntimeError('the opponent found no legal move')
    return bool(done)
