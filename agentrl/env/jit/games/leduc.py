"""Leduc poker: six cards of three ranks, a public card, two rounds of bets.

  f, c, r      fold, call (or check) and raise, by 2 chips, then by 4
  Kcrc/Qr\\n    what a seat sees: its card, moves, the public card, moves

Everybody has one chip in the pot; a round has at most two raises. A hand that
pairs the public card wins, else the higher one (Southey et al., 2005).
"""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import struct

from agentrl.env.jit.games import base

FOLD, CALL, RAISE = range(3)
RANKS = ('J', 'Q', 'K')
RAISES, MOVES = 2, 4  # of a round, at most
BETS = (2.0, 4.0)  # chips
# Two hands and the public card, of cards 0..5, rank = card // 2.
DEALS = tuple(itertools.permutations(range(6), 3))


class LeducState(struct.PyTreeNode):
  """Hands and moves; the public card is dealt, but unseen in round 0."""

  cards: jax.Array  # [3] i32  ranks: seat 0, seat 1, public
  moves: jax.Array  # [2, MOVES] i32  by round; -1: not made yet
  paid: jax.Array  # [2] f32  chips
  round: jax.Array  # [] i32  2: played to the end
  seat: jax.Array  # [] i32  to move
  folded: jax.Array  # [] i32  seat; -1: none


@dataclasses.dataclass(frozen=True)
class Leduc:
  """The rules; see `Rules`."""

  title: ClassVar[str] = 'leduc_poker'
  seats: ClassVar[int] = 2
  deals: ClassVar[int] = len(DEALS)
  turns: ClassVar[int] = 4
  solvable: ClassVar[bool] = True
  actions: ClassVar[tuple[str, ...]] = ('f', 'c', 'r')
  pieces: ClassVar[tuple[str, ...]] = (
    *RANKS,
    *actions,
    *(f'/{rank}' for rank in RANKS),
    '\n',
  )
  obs_len: ClassVar[int] = 3 + 2 * MOVES
  system: ClassVar[str] = (
    'Leduc poker with two cards of each rank J < Q < K, one chip each in the'
    ' pot. You see your card, the moves and, after /, the public card. f folds'
    ' after a raise, c checks or calls, r raises by 2 chips, by 4 after the'
    ' public card, at most twice a round. A pair with the public card wins,'
    ' else the higher card.'
  )

  @property
  def opponents(self) -> Mapping[str, base.Player]:
    return {
      'uniform': base.uniform,
      'folds': base.preferring(FOLD, CALL),
      'calls': base.preferring(CALL),
      'raises': base.preferring(RAISE, CALL),
    }

  def deal(self, number: jax.Array) -> LeducState:
    return LeducState(
      cards=jnp.asarray(DEALS, jnp.int32)[number] // 2,
      moves=jnp.full((2, MOVES), -1, jnp.int32),
      paid=jnp.ones(2),
      round=jnp.int32(0),
      seat=jnp.int32(0),
      folded=jnp.int32(-1),
    )

  def seat(self, state: LeducState) -> jax.Array:
    return state.seat

  def legal(self, state: LeducState) -> jax.Array:
    owes = state.paid[1 - state.seat] > state.paid[state.seat]
    raised = jnp.sum(self._moves(state) == RAISE)
    return jnp.stack([owes, jnp.array(True), raised < RAISES])

  def play(self, state: LeducState, action: jax.Array) -> LeducState:
    seat, now = state.seat, jnp.minimum(state.round, 1)
    moves = self._moves(state)
    n = jnp.sum(moves >= 0)
    most = jnp.max(state.paid)
    pays = most + jnp.where(action == RAISE, jnp.asarray(BETS)[now], 0)
    pays = jnp.where(action == FOLD, state.paid[seat], pays)
    ends = (action == CALL) & (n > 0)  # a first check leaves the other to move
    return LeducState(
      cards=state.cards,
      moves=state.moves.at[now, jnp.minimum(n, MOVES - 1)].set(action),
      paid=state.paid.at[seat].set(pays),
      round=state.round + ends,
      seat=jnp.where(ends, 0, 1 - seat).astype(jnp.int32),
      folded=jnp.where(action == FOLD, seat, state.folded).astype(jnp.int32),
    )

  def over(self, state: LeducState) -> jax.Array:
    return (state.folded >= 0) | (state.round == 2)

  def returns(self, state: LeducState) -> jax.Array:
    """Returns chips won: what the loser has paid, half of the pot."""
    hands, public = state.cards[:2], state.cards[2]
    rank = hands + len(RANKS) * (hands == public)
    better = jnp.sign(rank[0] - rank[1]).astype(jnp.float32)
    kept = jnp.where(state.folded == 1, 1.0, -1.0)
    sign = jnp.where(state.folded >= 0, kept, better)
    won = jnp.where(self.over(state), sign * jnp.min(state.paid), 0.0)
    return jnp.stack([won, -won])

  def observe(self, state: LeducState, seat: jax.Array) -> jax.Array:
    moves = jnp.where(state.moves < 0, -1, state.moves + len(RANKS))
    seen = (state.round > 0).astype(jnp.int32)
    public = jnp.where(seen, state.cards[2] + 2 * len(RANKS), -1)
    end = jnp.full(1, len(self.pieces) - 1)
    own = state.cards[seat][None]
    return base.packed(
      jnp.concatenate([own, moves[0], public[None], moves[1], end])
    )

  def _moves(self, state: LeducState) -> jax.Array:
    """Returns the moves of this round, [MOVES] i32."""
    return state.moves[jnp.minimum(state.round, 1)]
