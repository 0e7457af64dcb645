"""Kuhn poker: three cards, one chip each in the pot, one bet.

  p, b      pass and bet; after a bet, fold and call
  Kpb\\n     what the first seat sees: its card, then the moves

A deal is a pair of different cards. An optimal first seat has one free number,
here 1/3: how often it bets a jack (Kuhn, 1950).
"""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import struct

from agentrl.env.jit.games import base

PASS, BET = 0, 1
CARDS = ('J', 'Q', 'K')
HANDS = tuple((a, b) for a in range(3) for b in range(3) if a != b)


class KuhnState(struct.PyTreeNode):
  """Two hands and at most three moves."""

  cards: jax.Array  # [2] i32
  moves: jax.Array  # [3] i32  -1: not made yet


@dataclasses.dataclass(frozen=True)
class Kuhn:
  """The rules; see `Rules`."""

  title: ClassVar[str] = 'kuhn_poker'
  seats: ClassVar[int] = 2
  deals: ClassVar[int] = len(HANDS)
  turns: ClassVar[int] = 2
  solvable: ClassVar[bool] = True
  actions: ClassVar[tuple[str, ...]] = ('p', 'b')
  pieces: ClassVar[tuple[str, ...]] = (*CARDS, 'p', 'b', '\n')
  obs_len: ClassVar[int] = 5
  system: ClassVar[str] = (
    'Kuhn poker with the cards J < Q < K, one chip each in the pot. You see'
    ' your card and the moves so far. p passes, or folds after a bet; b bets'
    ' one chip, or calls.'
  )

  @property
  def opponents(self) -> Mapping[str, base.Player]:
    return {
      'uniform': base.uniform,
      'passes': base.preferring(PASS),
      'bets': base.preferring(BET),
      'king': king,
      'equilibrium': optimal,
    }

  def deal(self, number: jax.Array) -> KuhnState:
    cards = jnp.asarray(HANDS, jnp.int32)[number]
    return KuhnState(cards=cards, moves=jnp.full(3, -1, jnp.int32))

  def seat(self, state: KuhnState) -> jax.Array:
    return (_count(state) % 2).astype(jnp.int32)

  def legal(self, state: KuhnState) -> jax.Array:
    del state  # both, always
    return jnp.ones(2, bool)

  def play(self, state: KuhnState, action: jax.Array) -> KuhnState:
    at = jnp.minimum(_count(state), 2)
    return state.replace(moves=state.moves.at[at].set(action))

  def over(self, state: KuhnState) -> jax.Array:
    first, second, _ = state.moves
    n = _count(state)
    return (n == 3) | ((n == 2) & ((first == BET) | (second == PASS)))

  def returns(self, state: KuhnState) -> jax.Array:
    """Returns chips won: the pot of a showdown, or of one who did not fold."""
    first, second, third = state.moves
    better = jnp.where(state.cards[0] > state.cards[1], 1.0, -1.0)
    opened = jnp.where(second == PASS, 1.0, 2 * better)  # after a first bet
    raised = jnp.where(third == PASS, -1.0, 2 * better)  # after a second one
    passed = jnp.where(second == PASS, better, raised)
    won = jnp.where(first == BET, opened, passed)
    won = jnp.where(self.over(state), won, 0.0)
    return jnp.stack([won, -won])

  def observe(self, state: KuhnState, seat: jax.Array) -> jax.Array:
    moves = jnp.where(state.moves < 0, -1, state.moves + len(CARDS))
    end = jnp.int32(len(self.pieces) - 1)
    return base.packed(
      jnp.concatenate([state.cards[seat][None], moves, end[None]])
    )


def king(rules: Kuhn, state: KuhnState) -> jax.Array:
  """Bets and calls with the king, passes and folds with other cards."""
  held = state.cards[rules.seat(state)] == CARDS.index('K')
  return jax.nn.one_hot(jnp.where(held, BET, PASS), len(rules.actions))


def optimal(rules: Kuhn, state: KuhnState) -> jax.Array:
  """Plays the equilibrium in which the first seat bets a jack by 1/3."""
  del rules
  third = 1 / 3
  # Chance to bet or call by card, in the order in which moves come about:
  # opening, after a pass, after a bet, after a pass and a bet.
  bets = jnp.array(
    [[third, 0, 1], [third, 0, 1], [0, third, 1], [0, 2 * third, 1]]
  )
  first, n = state.moves[0], _count(state)
  answer = jnp.where(first == BET, 2, 1)
  when = jnp.where(n == 0, 0, jnp.where(n == 1, answer, 3))
  bet = bets[when, state.cards[n % 2]]
  return jnp.stack([1 - bet, bet]).astype(jnp.float32)


def _count(state: KuhnState) -> jax.Array:
  return jnp.sum(state.moves >= 0)
