"""Games of lines on a board: tic-tac-toe and connect four.

Both seats see the whole board, and which marks are theirs:

  you x
  x . .
  . o .
"""

import dataclasses
import functools
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

EMPTY, CROSS, NOUGHT = 0, 1, 2
PIECES = ('.', 'x', 'o', '\n', 'you x\n', 'you o\n')
NEWLINE, YOU = 3, 4


class BoardState(struct.PyTreeNode):
  """A board, and how many moves were made on it."""

  board: jax.Array  # [H, W] i32  EMPTY, CROSS of seat 0 or NOUGHT of seat 1
  count: jax.Array  # [] i32


def lines(height: int, width: int, length: int) -> np.ndarray:
  """Returns the cells of each line of a length, [L, length] i32."""
  out = []
  for row in range(height):
    for column in range(width):
      for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
        end = row + down * (length - 1), column + right * (length - 1)
        if end[0] < height and 0 <= end[1] < width:
          steps = range(length)
          out.append(
            [(row + i * down) * width + column + i * right for i in steps]
          )
  return np.asarray(out, np.int32)


@dataclasses.dataclass(frozen=True)
class Lines:
  """A board on which the first whole line of one's marks wins.

  drops: a move names a column, and the mark falls to its lowest empty cell;
    else it names a cell
  """

  title: str
  height: int
  width: int
  length: int
  drops: bool
  system: str

  seats: ClassVar[int] = 2
  deals: ClassVar[int] = 1
  solvable: ClassVar[bool] = False
  pieces: ClassVar[tuple[str, ...]] = PIECES

  @property
  def turns(self) -> int:
    return -(-self.height * self.width // 2)

  @property
  def actions(self) -> tuple[str, ...]:
    count = self.width if self.drops else self.height * self.width
    return tuple(str(i + 1) for i in range(count))

  @property
  def obs_len(self) -> int:
    """A line on whose marks are one's own, then the rows."""
    return 1 + self.height * (self.width + 1)

  def deal(self, number: jax.Array) -> BoardState:
    del number
    board = jnp.full((self.height, self.width), EMPTY, jnp.int32)
    return BoardState(board=board, count=jnp.int32(0))

  def seat(self, state: BoardState) -> jax.Array:
    return state.count % 2

  def legal(self, state: BoardState) -> jax.Array:
    board = state.board[0] if self.drops else state.board.reshape(-1)
    return board == EMPTY

  def play(self, state: BoardState, action: jax.Array) -> BoardState:
    if self.drops:
      room = jnp.sum(state.board[:, action] == EMPTY)
      at = jnp.maximum(room - 1, 0), action
    else:
      at = action // self.width, action % self.width
    board = state.board.at[at].set(CROSS + self.seat(state))
    return BoardState(board=board, count=state.count + 1)

  def over(self, state: BoardState) -> jax.Array:
    return (self.winner(state) != EMPTY) | ~jnp.any(self.legal(state))

  def returns(self, state: BoardState) -> jax.Array:
    won = self.winner(state)
    first = (won == CROSS).astype(jnp.float32) - (won == NOUGHT)
    return jnp.stack([first, -first])

  def observe(self, state: BoardState, seat: jax.Array) -> jax.Array:
    ends = jnp.full((self.height, 1), NEWLINE, jnp.int32)
    rows = jnp.concatenate([state.board, ends], axis=1).reshape(-1)
    return jnp.append(jnp.int32(YOU + seat), rows).astype(jnp.int32)

  def winner(self, state: BoardState) -> jax.Array:
    """Returns CROSS, NOUGHT, or EMPTY while no line is whole: i32[]."""
    cells = state.board.reshape(-1)[lines(self.height, self.width, self.length)]
    whole = jnp.all(cells == cells[:, :1], axis=1)
    return jnp.max(jnp.where(whole, cells[:, 0], EMPTY))


TIC_TAC_TOE = Lines(
  title='tic_tac_toe',
  height=3,
  width=3,
  length=3,
  drops=False,
  system=(
    'Tic-tac-toe. x begins; three of your marks in a row, a column or a'
    ' diagonal win. Cells are 1 to 9, from the top left, row by row. Name an'
    ' empty cell.'
  ),
)
CONNECT_FOUR = Lines(
  title='connect_four',
  height=6,
  width=7,
  length=4,
  drops=True,
  system=(
    'Connect four. x begins; four of your marks in a row, a column or a'
    ' diagonal win. Marks fall to the lowest empty cell of a column. Name a'
    ' column with room, 1 to 7.'
  ),
)


def optimal(rules: Lines, state: BoardState) -> jax.Array:
  """Plays one of the best moves on a small board, each with one probability."""
  values = jnp.asarray(_values(rules))
  powers = jnp.asarray(3 ** np.arange(rules.height * rules.width))
  legal = rules.legal(state)
  after = jax.vmap(lambda a: rules.play(state, a).board)(
    jnp.arange(len(rules.actions))
  )
  code = after.reshape(len(after), -1) @ powers
  sign = jnp.where(rules.seat(state) == 0, 1, -1)
  value = jnp.where(legal, sign * values[code], -2)
  best = legal & (value == jnp.max(value))
  return best.astype(jnp.float32) / jnp.maximum(jnp.sum(best), 1)


@functools.cache
def _values(rules: Lines) -> np.ndarray:
  """Returns what seat 0 gets under best play, [3^cells] i8, by the board."""
  cells = rules.height * rules.width
  if cells > 12:
    raise ValueError(
      f'a board must have at most 12 cells to be solved, got {cells}; let'
      ' another player have the seat'
    )
  every = lines(rules.height, rules.width, rules.length)
  values = np.zeros(3**cells, np.int8)
  seen: dict[int, int] = {}

  def solve(board: tuple[int, ...], count: int) -> int:
    code = sum(mark * 3**i for i, mark in enumerate(board))
    if code in seen:
      return seen[code]
    whole = (board[x[0]] for x in every if len({board[i] for i in x}) == 1)
    won = max(whole, default=EMPTY)
    value = {CROSS: 1, NOUGHT: -1}.get(won, 0)
    if not won and count < cells:
      sign = 1 if count % 2 == 0 else -1
      value = sign * max(
        sign
        * solve((*board[:i], CROSS + count % 2, *board[i + 1 :]), count + 1)
        for i in range(cells)
        if board[i] == EMPTY
      )
    seen[code] = values[code] = value
    return value

  solve((EMPTY,) * cells, 0)
  return values
