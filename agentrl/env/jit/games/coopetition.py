"""Coopetition: two seats invest at once, for themselves and for a surplus.

  5 84\\n     synergy .5; one depends by .8 on the other, and the other by .4
  3          a level: 3 of 9 of what one has is invested

The static game of Coopetition-Gym (TR-1, arXiv 2510.18802). With investments a,

  pi_i = e - a_i + theta ln(1 + a_i) + gamma / 2 sqrt(a_i a_j)
  U_i  = pi_i + w_ij pi_j

where w is 0 for private rewards, the interdependence D_ij for integrated ones
and 1 for cooperative ones. An equilibrium of U with w = D is what the paper
calls coopetitive; with w = 0 it is Nash's, and with w = 1 of both seats one
maximises the sum.

A best response does not fall where the other invests more, so that best
responses to best responses, begun at 0, rise to an equilibrium: `optimal`.
"""

import dataclasses
import itertools
from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import struct

from agentrl.env.jit.games import base

MODES = PRIVATE, INTEGRATED, COOPERATIVE = (
  'private',
  'integrated',
  'cooperative',
)
LEVELS = 10
STEP = 5.0  # of investments; all of 9 steps are the endowment e
THETA = 20.0  # the paper's, fitted to the joint venture S-LCD
SCALE = 50.0  # utilities over e are divided by it
# In tenths: gamma; D of the first seat on the second, and the other way.
DEALS = tuple(itertools.product((1, 5, 9), (0, 4, 8), (0, 4, 8)))


class CoopetitionState(struct.PyTreeNode):
  """What is at stake, and at most two moves."""

  synergy: jax.Array  # [] i32  tenths
  depends: jax.Array  # [2] i32  tenths: of seat 0 on 1, of 1 on 0
  moves: jax.Array  # [2] i32  -1: not made yet


@dataclasses.dataclass(frozen=True)
class Coopetition:
  """The rules; see `Rules`. A seat has won whose move was a best response."""

  mode: str = INTEGRATED

  title: ClassVar[str] = 'coopetition'
  seats: ClassVar[int] = 2
  deals: ClassVar[int] = len(DEALS)
  turns: ClassVar[int] = 1
  solvable: ClassVar[bool] = True
  actions: ClassVar[tuple[str, ...]] = tuple(map(str, range(LEVELS)))
  pieces: ClassVar[tuple[str, ...]] = (*actions, ' ', '\n')
  obs_len: ClassVar[int] = 5
  columns: ClassVar[tuple[str, ...]] = ('level', 'welfare')
  system: ClassVar[str] = (
    'You and another invest at once, each a level from 0 to 9. What you keep'
    ' and what your level makes is yours; a surplus that grows with both levels'
    ' is shared. You see three numbers in tenths: the synergy, how much the'
    " other's outcome counts for you, and yours for the other."
  )

  def deal(self, number: jax.Array) -> CoopetitionState:
    synergy, *depends = jnp.asarray(DEALS, jnp.int32)[number]
    moves = jnp.full(2, -1, jnp.int32)
    return CoopetitionState(synergy, jnp.stack(depends), moves)

  def seat(self, state: CoopetitionState) -> jax.Array:
    return jnp.minimum(_count(state), 1).astype(jnp.int32)

  def legal(self, state: CoopetitionState) -> jax.Array:
    del state  # all, always
    return jnp.ones(LEVELS, bool)

  def play(
    self, state: CoopetitionState, action: jax.Array
  ) -> CoopetitionState:
    return state.replace(moves=state.moves.at[self.seat(state)].set(action))

  def over(self, state: CoopetitionState) -> jax.Array:
    return _count(state) == 2

  def returns(self, state: CoopetitionState) -> jax.Array:
    """Returns (U_i - U_i without investments) / SCALE."""
    got = _reached(self.utilities(state), state)
    return jnp.where(self.over(state), got, 0.0)

  def utilities(self, state: CoopetitionState) -> jax.Array:
    """Returns what each seat gets by both levels: f32[2, LEVELS, LEVELS]."""
    own = gains(state.synergy / 10)
    weight = {
      PRIVATE: jnp.zeros(2),
      INTEGRATED: state.depends / 10,
      COOPERATIVE: jnp.ones(2),
    }[self.mode]
    return ((own + weight[:, None, None] * own[::-1]) / SCALE).astype(
      jnp.float32
    )

  def solved(self, state: CoopetitionState) -> jax.Array:
    """Returns whether each move is worth as much as a best response to it."""
    table = self.utilities(state)
    first, second = jnp.maximum(state.moves, 0)
    best = jnp.stack([table[0, :, second].max(), table[1, first].max()])
    return self.over(state) & (_reached(table, state) >= best - 1e-6)

  def observe(self, state: CoopetitionState, seat: jax.Array) -> jax.Array:
    own, others = state.depends[seat], state.depends[1 - seat]
    space, end = (self.pieces.index(x) for x in (' ', '\n'))
    shown = [state.synergy, space, own, others, end]
    return jnp.stack([jnp.asarray(x, jnp.int32) for x in shown])

  def info(
    self, before: CoopetitionState, after: CoopetitionState
  ) -> dict[str, jax.Array]:
    """Tells the share that was invested, and at the end what is made of it.

    welfare = sum_i (pi_i - e) over the most that two levels reach
    """
    made = _count(after) > _count(before)
    level = after.moves[self.seat(before)] / (LEVELS - 1)
    joint = gains(after.synergy / 10).sum(axis=0)
    ended = made & self.over(after)
    welfare = _reached(joint, after) / joint.max()
    told = {
      'level': jnp.where(made, level, 0.0),
      'welfare': jnp.where(ended, welfare, 0.0),
    }
    return {name: x.astype(jnp.float32) for name, x in told.items()}

  def taught_moves(self, state: CoopetitionState) -> jax.Array:
    return base.uniform(self, state)


def gains(synergy: jax.Array) -> jax.Array:
  """Returns pi - e of each seat by both levels: f32[2, LEVELS, LEVELS].

  Args:
    synergy: gamma, f32[]
  """
  a = STEP * jnp.arange(LEVELS)
  alone = THETA * jnp.log1p(a) - a
  shared = synergy / 2 * jnp.sqrt(a[:, None] * a[None])
  return jnp.stack([alone[:, None] + shared, alone[None] + shared])


def optimal(rules: Coopetition, state: CoopetitionState) -> jax.Array:
  """Plays the least equilibrium of pure moves."""
  table = rules.utilities(state)

  def respond(_, levels):
    first, second = levels
    return jnp.stack(
      [jnp.argmax(table[0, :, second]), jnp.argmax(table[1, first])]
    )

  # Levels only rise, at least one of the two at each trip.
  levels = jax.lax.fori_loop(0, 2 * LEVELS, respond, jnp.zeros(2, jnp.int32))
  return jax.nn.one_hot(levels[rules.seat(state)], LEVELS)


def _reached(table: jax.Array, state: CoopetitionState) -> jax.Array:
  """Reads a table [..., LEVELS, LEVELS] at both moves, 0 if not made yet."""
  first, second = jnp.maximum(state.moves, 0)
  return table[..., first, second]


def _count(state: CoopetitionState) -> jax.Array:
  return jnp.sum(state.moves >= 0)
