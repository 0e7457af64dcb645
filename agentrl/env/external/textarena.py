"""Games of textarena (arXiv 2504.11442), solo or against random play.

A two-player game is played in either seat against an opponent that draws its
legal moves uniformly.
"""

import contextlib
import copy
import dataclasses
import io
import random
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from agentrl.env import base, task_sampling

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


@dataclasses.dataclass(frozen=True)
class TextArena:
  """A task is {'seed', 'player'}: seed of the game and seat of the agent.

  The package does not expose what it draws. Tasks differ by seed and seat, so
  in a game with few positions two tasks may coincide.
  """

  id: str = 'TowerOfHanoi-v0'  # the package's, with its variants

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

  def name(self) -> str:
    """Returns textarena-<id>-<hash of all settings>."""
    return task_sampling.name(f'textarena-{self.id}', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[base.HostTask]:
    """Yields distinct tasks, without demonstrations; see `base.EnvFamily`."""
    seats = 2 if self.id.split('-')[0] in MOVES else 1
    return task_sampling.seeds(split, count, seed, seats=seats)

  def env(self) -> 'ArenaEnv':
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
    return ArenaEnv(lambda: textarena.make(raw), self.id.split('-')[0])


class ArenaEnv:
  """Plays a game with generators that no other environment shares."""

  def __init__(self, make, game: str):
    self.make, self.moves = make, MOVES.get(game, ())

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    """Begins a game; `seed` draws the opponent's moves."""
    self.me, self.opponent = task['player'], np.random.default_rng(seed)
    self.dice = random.Random(task['seed']).getstate()
    self.arrays = np.random.RandomState(task['seed']).get_state()
    with self._alone():
      self.world = self.make()
      players = 2 if self.moves else 1
      self.world.reset(num_players=players, seed=task['seed'])
      self._oppose()
      return self._observe()

  def step(self, message: str) -> base.Step:
    """Plays a move and the opponent's reply."""
    move = message if '[' in message or ']' in message else f'[{message}]'
    with self._alone():
      done, _ = self.world.step(move)
      refused = self._refused(self.me)
      if not done:
        done = self._oppose()
      text = '' if done else self._observe()
    earned = float((self.world.state.rewards or {}).get(self.me, 0))
    reward = earned if done else 0.0
    return base.Step(text, reward, done, min(max(reward, 0.0), 1.0), refused)

  def close(self) -> None:
    """Nothing to close."""

  def _oppose(self) -> bool:
    """Plays the opponent's moves; returns whether the game is over."""
    done = False
    while not done and self.world.state.current_player_id != self.me:
      other = self.world.state.current_player_id
      for i in self.opponent.permutation(len(self.moves)):
        tried = copy.deepcopy(self.world)
        done, _ = tried.step(self.moves[i])
        self.world, before = tried, self.world
        if not self._refused(other):
          break
        self.world, done = before, False
      else:
        raise RuntimeError('the opponent found no legal move')
    return bool(done)

  def _refused(self, player: int) -> bool:
    """Returns whether the player's last move was illegal."""
    state = self.world.state
    ended = bool(state.game_info[player]['invalid_move'])
    waits = state.current_player_id == player and state.error_count > 0
    return ended or waits

  def _observe(self) -> str:
    """Returns the game's new messages to the agent."""
    _, messages = self.world.get_observation()
    return '\n'.join(
      text.strip() for who, text, _ in messages if who != self.me
    )

  @contextlib.contextmanager
  def _alone(self):
    """Swaps the package's global generators for this environment's own."""
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
