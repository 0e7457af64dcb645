"""Two games of agents that work on one sum, in the manner of countdown.

  3 4=12\\n      what is asked: which of + - * makes 12 of 3 and 4
  3 4=12-n\\n    the same with the moves so far: an answer, and its verdict

In `SolverVerifier` one agent answers and the other says whether that is right;
in `PioneerObserver` both answer, and the second reads the first's answer.
A deal is two numbers and an operation, which is a right answer; another that
makes the same number is right too.
"""

import abc
import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import struct

from agentrl.env.jit.games import base

OPERATIONS = ('+', '-', '*')
YES, NO = 'y', 'n'
SIGNS = (' ', '=', '\n')
SHOWN = 6  # pieces of an observation beside the moves
SOLVER, VERIFIER = 0, 1


class SumState(struct.PyTreeNode):
  """A sum, and what has been said of it."""

  numbers: jax.Array  # [2] i32
  target: jax.Array  # [] i32
  moves: jax.Array  # [M] i32  -1: not made yet


@dataclasses.dataclass(frozen=True)
class _Sums(abc.ABC):
  """What both games have in common: two seats in turn, nothing hidden."""

  largest: int = 5

  seats: ClassVar[int] = 2
  solvable: ClassVar[bool] = False
  actions: ClassVar[tuple[str, ...]] = OPERATIONS

  @property
  @abc.abstractmethod
  def length(self) -> int:
    """M, the most moves of a match."""

  @property
  def deals(self) -> int:
    return self.largest**2 * len(OPERATIONS)

  @property
  def pieces(self) -> tuple[str, ...]:
    return pieces(self.actions, self.largest)

  @property
  def obs_len(self) -> int:
    return SHOWN + self.length

  def deal(self, number: jax.Array) -> SumState:
    return deal(number, self.largest, self.length)

  def seat(self, state: SumState) -> jax.Array:
    return (count(state) % 2).astype(jnp.int32)

  def play(self, state: SumState, action: jax.Array) -> SumState:
    return play(state, action)

  def observe(self, state: SumState, seat: jax.Array) -> jax.Array:
    del seat  # nothing is hidden
    return observe(self.pieces, state)


@dataclasses.dataclass(frozen=True)
class SolverVerifier(_Sums):
  """Seat 0 answers, seat 1 says y or n; n gives the solver another try.

  The match ends with y, or with the last try, which nobody verifies: the
  verifier is called less often than the solver. The solver gets 1 if its last
  answer is right; the verifier the share of its verdicts that are true.

  Args:
    largest: of the two numbers
    tries: of the solver, 2 or more
  """

  tries: int = 2

  title: ClassVar[str] = 'solver_verifier'
  actions: ClassVar[tuple[str, ...]] = (*OPERATIONS, YES, NO)

  @property
  def length(self) -> int:
    return 2 * self.tries - 1

  @property
  def turns(self) -> int:
    return self.tries

  @property
  def system(self) -> str:
    return (
      'Which of + - * makes the number behind = of the two before it? The'
      ' solver answers with its sign; the verifier says y if that is right and'
      f' n if not, and n gives another try, {self.tries} in all.'
    )

  def legal(self, state: SumState) -> jax.Array:
    operation = jnp.arange(len(self.actions)) < len(OPERATIONS)
    return operation == (self.seat(state) == SOLVER)

  def over(self, state: SumState) -> jax.Array:
    accepted = jnp.any(state.moves[1::2] == self.actions.index(YES))
    return accepted | (count(state) == self.length)

  def returns(self, state: SumState) -> jax.Array:
    true = correct(state, state.moves[::2])  # [tries]
    verdicts = state.moves[1::2]  # [tries - 1]
    said = verdicts == self.actions.index(YES)
    right = (verdicts >= 0) & (said == true[:-1])
    asked = jnp.maximum(jnp.sum(verdicts >= 0), 1)
    last = jnp.maximum(jnp.sum(state.moves[::2] >= 0) - 1, 0)
    got = jnp.stack([true[last].astype(jnp.float32), jnp.sum(right) / asked])
    return jnp.where(self.over(state), got, 0.0).astype(jnp.float32)


@dataclasses.dataclass(frozen=True)
class PioneerObserver(_Sums):
  """Seat 0 answers, seat 1 reads that and answers; both get the sum.

  So each is paid for the other's answer as well as for its own: the pioneer
  for what its answer tells. A seat has won if its own answer is right.
  """

  title: ClassVar[str] = 'pioneer_observer'
  turns: ClassVar[int] = 1
  system: ClassVar[str] = (
    'Which of + - * makes the number behind = of the two before it? Answer with'
    ' its sign. Behind the number stands the answer of whoever was asked first.'
  )

  @property
  def length(self) -> int:
    return 2

  def legal(self, state: SumState) -> jax.Array:
    del state  # all, always
    return jnp.ones(len(OPERATIONS), bool)

  def over(self, state: SumState) -> jax.Array:
    return count(state) == self.length

  def returns(self, state: SumState) -> jax.Array:
    both = jnp.sum(self.solved(state).astype(jnp.float32))
    return jnp.where(self.over(state), jnp.stack([both, both]), 0.0)

  def solved(self, state: SumState) -> jax.Array:
    """Returns whose own answer is right, bool[S]."""
    return correct(state, state.moves)


def pieces(actions: tuple[str, ...], largest: int) -> tuple[str, ...]:
  """Lists the pieces of observations: moves, signs, then all numbers."""
  return (*actions, *SIGNS, *map(str, range(1 - largest, largest**2 + 1)))


def deal(number: jax.Array, largest: int, length: int) -> SumState:
  """Begins at deal ((x - 1) largest + y - 1) 3 + operation."""
  pair, operation = number // len(OPERATIONS), number % len(OPERATIONS)
  numbers = jnp.stack([pair // largest, pair % largest]) + 1
  return SumState(
    numbers=numbers.astype(jnp.int32),
    target=results(numbers)[operation].astype(jnp.int32),
    moves=jnp.full(length, -1, jnp.int32),
  )


def play(state: SumState, action: jax.Array) -> SumState:
  at = jnp.minimum(count(state), len(state.moves) - 1)
  return state.replace(moves=state.moves.at[at].set(action))


def observe(pieces: tuple[str, ...], state: SumState) -> jax.Array:
  """Shows the sum and all moves: piece indices, -1 past the end."""
  space, equals, end = map(pieces.index, SIGNS)
  zero = pieces.index('0')
  x, y = zero + state.numbers
  asked = jnp.stack([x, space, y, equals, zero + state.target])
  return base.packed(jnp.concatenate([asked, state.moves, jnp.array([end])]))


def results(numbers: jax.Array) -> jax.Array:
  """Computes what each operation makes of two numbers: [3]."""
  x, y = numbers
  return jnp.stack([x + y, x - y, x * y])


def correct(state: SumState, answers: jax.Array) -> jax.Array:
  """Returns which answers [n] make the target, False for -1: [n] bool."""
  makes = results(state.numbers) == state.target  # [3]
  return (answers >= 0) & makes[jnp.clip(answers, 0, len(OPERATIONS) - 1)]


def count(state: SumState) -> jax.Array:
  """Counts the moves made, i32[]."""
  return jnp.sum(state.moves >= 0)
