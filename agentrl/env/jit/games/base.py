"""Games of several seats inside jit: rules, and the environments made of them.

Rules say who moves, what is legal, what a seat sees and what it gets. `Match`
is an environment that plays all seats by messages, each seat a conversation of
its own (rollout/seats.py); in `Against` one seat is played by messages and the
others by a fixed player that needs no model.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import chex
import jax
import jax.numpy as jnp
from flax import struct

# What an illegal or unreadable message does.
FORFEIT, RANDOM = 'forfeit', 'random'
# SPIRAL (arXiv 2506.24119, its code): to whoever forfeits, and to the others.
FORFEITED, WON_BY_FORFEIT = -1.5, 0.5
ILLEGAL = 'illegal'  # the column: the message named no legal move


class Rules(Protocol):
  """A game of S seats that take turns, zero-sum or not; calls are one match's.

  A frozen dataclass whose methods are pure. Of A actions at least one is legal
  until the match is over. `observe` remembers all that its seat saw: the states
  that look alike to a seat are one information set.
  """

  @property
  def title(self) -> str:
    """The name in a file name."""

  @property
  def seats(self) -> int:
    """S."""

  @property
  def deals(self) -> int:
    """How many deals there are, all of one probability; 1: no chance."""

  @property
  def turns(self) -> int:
    """The most turns of a seat."""

  @property
  def solvable(self) -> bool:
    """Whether the whole tree is small enough to go through (tree.py)."""

  @property
  def actions(self) -> tuple[str, ...]:
    """The texts of the moves."""

  @property
  def pieces(self) -> tuple[str, ...]:
    """The text pieces of observations."""

  @property
  def obs_len(self) -> int:
    """The capacity of an observation, in pieces."""

  @property
  def system(self) -> str:
    """The rules in words."""

  def deal(self, number: jax.Array) -> chex.ArrayTree:
    """Begins a match of deal i32[] in [0, deals): -> state."""

  def seat(self, state: chex.ArrayTree) -> jax.Array:
    """Returns the seat to move, i32[]; any once the match is over."""

  def legal(self, state: chex.ArrayTree) -> jax.Array:
    """Returns which actions are legal, bool[A]."""

  def play(self, state: chex.ArrayTree, action: jax.Array) -> chex.ArrayTree:
    """Makes a legal move: -> state."""

  def over(self, state: chex.ArrayTree) -> jax.Array:
    """Returns whether the match has ended, bool[]."""

  def returns(self, state: chex.ArrayTree) -> jax.Array:
    """Returns what each seat has got, f32[S]; 0 until the match is over."""

  def observe(self, state: chex.ArrayTree, seat: jax.Array) -> jax.Array:
    """Returns what a seat sees: i32[obs_len], -1 past the end."""


@runtime_checkable
class TellsSolved(Rules, Protocol):
  """Rules in which to have won is not to have got something."""

  def solved(self, state: chex.ArrayTree) -> jax.Array:
    """Returns which seats have won a match that is over, bool[S]."""


@runtime_checkable
class TellsTurns(Rules, Protocol):
  """Rules that tell something of each move, and how experts move."""

  @property
  def columns(self) -> tuple[str, ...]:
    """The names of what `info` tells."""

  def info(
    self, before: chex.ArrayTree, after: chex.ArrayTree
  ) -> dict[str, jax.Array]:
    """Tells of the move between two states, which are equal if none was made.

    f32[] each, named as `columns`.
    """

  def taught_moves(self, state: chex.ArrayTree) -> jax.Array:
    """Returns probabilities of demonstrated moves, f32[A], 0 where illegal."""


# (rules, state) -> probabilities of the moves, f32[A], 0 of illegal ones.
Player = Callable[[Any, Any], jax.Array]


@runtime_checkable
class TellsOpponents(Rules, Protocol):
  """Rules of a zero-sum game with fixed players to measure a policy against."""

  @property
  def opponents(self) -> Mapping[str, Player]:
    """Players by name, who know what the seat to move sees and no more."""


def uniform(rules: Rules, state: chex.ArrayTree) -> jax.Array:
  """Plays every legal move with one probability."""
  legal = rules.legal(state).astype(jnp.float32)
  return legal / jnp.maximum(jnp.sum(legal), 1)


def preferring(*moves: int) -> Player:
  """Returns a player that plays the first of these moves that is legal.

  Args:
    moves: of which one is always legal
  """

  def player(rules: Rules, state: chex.ArrayTree) -> jax.Array:
    wanted = jnp.asarray(moves, jnp.int32)
    move = wanted[jnp.argmax(rules.legal(state)[wanted])]
    return jax.nn.one_hot(move, len(rules.actions))

  return player


class MatchState(struct.PyTreeNode):
  """A match under way."""

  game: Any  # of the rules
  forfeit: jax.Array  # [] i32  seat that has forfeited; -1: none


@dataclasses.dataclass(frozen=True)
class Match:
  """An environment of S seats, all played by messages; see `SeatedEnv`.

  A task is deal i32[].

  Args:
    illegal: FORFEIT: a message that names no legal move ends the match;
      RANDOM: a random legal move is made in its place
    forfeits: what the seat that has given a match up gets, and the others
  """

  rules: Rules
  illegal: str = FORFEIT
  forfeits: tuple[float, float] = (FORFEITED, WON_BY_FORFEIT)

  @property
  def seats(self) -> int:
    return self.rules.seats

  @property
  def turns(self) -> int:
    return self.rules.turns

  @property
  def actions(self) -> tuple[str, ...]:
    return self.rules.actions

  @property
  def pieces(self) -> tuple[str, ...]:
    return self.rules.pieces

  @property
  def legend(self) -> str:
    return self.rules.system

  @property
  def obs_len(self) -> int:
    return self.rules.obs_len

  @property
  def columns(self) -> tuple[str, ...]:
    own = self.rules.columns if isinstance(self.rules, TellsTurns) else ()
    return (ILLEGAL, *own)

  def reset(
    self, key: jax.Array, task: dict[str, chex.Array]
  ) -> tuple[MatchState, jax.Array]:
    """Returns state, what the first seat to move sees."""
    del key  # a task leaves nothing open
    deal = jnp.asarray(task['deal'], jnp.int32)
    state = MatchState(game=self.rules.deal(deal), forfeit=jnp.int32(-1))
    return state, self._observe(state)

  def step(
    self, state: MatchState, action: jax.Array, key: jax.Array
  ) -> tuple[MatchState, jax.Array, jax.Array, jax.Array]:
    """Plays one move: -> state, what the next seat to move sees, 0, done.

    Moves earn nothing: `returns` says what each seat gets at the end.
    """
    state = self.moved(state, action, key)
    return state, self._observe(state), jnp.float32(0), self.over(state)

  def moved(
    self, state: MatchState, action: jax.Array, key: jax.Array
  ) -> MatchState:
    """Makes the move of a message, or what `illegal` says in its place."""
    over, fair = self.over(state), self.fair(state, action)
    if self.illegal == RANDOM:
      move = jnp.where(fair, action, draw(uniform(self.rules, state.game), key))
      forfeit = state.forfeit
    else:
      move = jnp.maximum(action, 0)
      gives_up = ~over & ~fair
      forfeit = jnp.where(gives_up, self.seat(state), state.forfeit)
    made = ~over & (fair | (self.illegal == RANDOM))
    game = jax.tree.map(
      lambda new, old: jnp.where(made, new, old),
      self.rules.play(state.game, move),
      state.game,
    )
    return MatchState(game=game, forfeit=forfeit)

  def fair(self, state: MatchState, action: jax.Array) -> jax.Array:
    """Returns whether a message names a legal move, bool[]."""
    return (action >= 0) & self.rules.legal(state.game)[jnp.maximum(action, 0)]

  def over(self, state: MatchState) -> jax.Array:
    return self.rules.over(state.game) | (state.forfeit >= 0)

  def seat(self, state: MatchState) -> jax.Array:
    """Returns the seat to move, i32[]."""
    return self.rules.seat(state.game)

  def returns(self, state: MatchState) -> jax.Array:
    """Returns what each seat has got, f32[S]."""
    seats = jnp.arange(self.seats)
    given_up = jnp.where(seats == state.forfeit, *self.forfeits)
    played = self.rules.returns(state.game)
    return jnp.where(state.forfeit >= 0, given_up, played).astype(jnp.float32)

  def wins(self, state: MatchState) -> jax.Array:
    """Returns 1 for each seat that has won and 0 for the others, f32[S]."""
    won = self.returns(state) > 0
    if isinstance(self.rules, TellsSolved):
      won = self.rules.solved(state.game) & (state.forfeit < 0)
    return (self.over(state) & won).astype(jnp.float32)

  def score(self, state: MatchState) -> jax.Array:
    """Returns whether seat 0 has won; `wins` says it of every seat."""
    return self.wins(state)[0]

  def info(
    self, before: MatchState, action: jax.Array, after: MatchState
  ) -> dict[str, jax.Array]:
    """Returns 1 for a message that named no legal move, and what rules tell."""
    wrong = ~self.over(before) & ~self.fair(before, action)
    told = {ILLEGAL: wrong.astype(jnp.float32)}
    if isinstance(self.rules, TellsTurns):
      told |= self.rules.info(before.game, after.game)
    return told

  def demonstrate(self, state: MatchState, key: jax.Array) -> jax.Array:
    """Draws a legal move of the seat to move: i32[]; for warm starts."""
    if isinstance(self.rules, TellsTurns):
      return draw(self.rules.taught_moves(state.game), key)
    return draw(uniform(self.rules, state.game), key)

  def _observe(self, state: MatchState) -> jax.Array:
    return self.rules.observe(state.game, self.seat(state))


class AgainstState(struct.PyTreeNode):
  """A match under way, of which one seat is played by messages."""

  match: MatchState
  seat: jax.Array  # [] i32  that is


@dataclasses.dataclass(frozen=True)
class Against:
  """An environment of one seat: a fixed player has the others.

  A task is deal i32[] and seat i32[], the one that messages play.
  """

  match: Match
  player: Player

  @property
  def rules(self) -> Rules:
    return self.match.rules

  @property
  def illegal(self) -> str:
    return self.match.illegal

  @property
  def actions(self) -> tuple[str, ...]:
    return self.match.actions

  @property
  def pieces(self) -> tuple[str, ...]:
    return self.match.pieces

  @property
  def legend(self) -> str:
    return self.match.legend

  @property
  def obs_len(self) -> int:
    return self.match.obs_len

  @property
  def turns(self) -> int:
    return self.match.turns

  @property
  def columns(self) -> tuple[str, ...]:
    return self.match.columns

  def reset(
    self, key: jax.Array, task: dict[str, chex.Array]
  ) -> tuple[AgainstState, jax.Array]:
    """Returns state, what the own seat sees when it first moves."""
    state, _ = self.match.reset(key, task)
    own = AgainstState(match=state, seat=self.seat_of(task))
    own = self._answered(own, key)
    return own, self._observe(own)

  def step(
    self, state: AgainstState, action: jax.Array, key: jax.Array
  ) -> tuple[AgainstState, jax.Array, jax.Array, jax.Array]:
    """Plays a move and the answers: -> state, obs, reward at the end, done."""
    before = self.match.over(state.match)
    mine, theirs = jax.random.split(key)
    moved = state.replace(match=self.match.moved(state.match, action, mine))
    after = self._answered(moved, theirs)
    over = self.match.over(after.match)
    got = self.match.returns(after.match)[after.seat]
    reward = jnp.where(over & ~before, got, 0.0)
    return after, self._observe(after), reward, over

  def seat_of(self, task: dict[str, chex.Array]) -> jax.Array:
    """Returns the seat that messages play, i32[]."""
    return jnp.asarray(task['seat'], jnp.int32)

  def score(self, state: AgainstState) -> jax.Array:
    """Returns 1 where the own seat has won, f32[]."""
    return self.match.wins(state.match)[state.seat]

  def info(
    self, before: AgainstState, action: jax.Array, after: AgainstState
  ) -> dict[str, jax.Array]:
    return self.match.info(before.match, action, after.match)

  def demonstrate(self, state: AgainstState, key: jax.Array) -> jax.Array:
    return self.match.demonstrate(state.match, key)

  def _answered(self, state: AgainstState, key: jax.Array) -> AgainstState:
    """Lets the fixed player move until it is the own seat's turn."""
    rules = self.match.rules

    def theirs(carry):
      match, _ = carry
      return ~self.match.over(match) & (self.match.seat(match) != state.seat)

    def move(carry):
      match, key = carry
      key, now = jax.random.split(key)
      action = draw(self.player(rules, match.game), now)
      return match.replace(game=rules.play(match.game, action)), key

    match, _ = jax.lax.while_loop(theirs, move, (state.match, key))
    return state.replace(match=match)

  def _observe(self, state: AgainstState) -> jax.Array:
    return self.match.rules.observe(state.match.game, state.seat)


def draw(probs: jax.Array, key: jax.Array) -> jax.Array:
  """Draws a move: i32[]."""
  return jax.random.categorical(key, jnp.log(probs)).astype(jnp.int32)


def packed(pieces: jax.Array) -> jax.Array:
  """Moves the pieces that are there, >= 0, to the front; -1 behind them."""
  order = jnp.argsort(pieces < 0, stable=True)
  return pieces[order].astype(jnp.int32)
