"""Ratings of players from results of matches, and whom to play by them."""

import chex
import jax
import jax.numpy as jnp

from agentrl.types import Array


def expected(own: Array, other: Array) -> Array:
  """E = 1 / (1 + 10^((other − own) / 400)): the score that ratings predict."""
  return jax.nn.sigmoid((own - other) * (jnp.log(10.0) / 400))


def elo(
  own: Array, other: Array, score: Array, known: Array, *, rate: float = 32.0
) -> tuple[Array, Array]:
  """Rates two players after matches with each other, in their order (Elo).

    own ← own + rate (s − E),   other ← other − rate (s − E)

  Args:
    own, other: ratings before, []
    score: [m], 1 where the first player won, 0 where it lost, 1/2 for a draw
    known: [m] bool, whether the match counts
    rate: K, the most that a match changes a rating by
  Returns: both ratings after the last match
  """
  chex.assert_rank([own, other, score, known], [0, 0, 1, 1])

  def after(ratings, match):
    own, other = ratings
    s, counts = match
    gain = jnp.where(counts, rate * (s - expected(own, other)), 0.0)
    return (own + gain, other - gain), None

  begin = own + 0.0 * score.sum(), other + 0.0 * score.sum()  # of one layout
  return jax.lax.scan(after, begin, (score, known))[0]


def pfsp(p: Array, *, power: float = 2.0) -> Array:
  """f(p) = (1 − p)^power: the weight of a rival that is beaten by chance p.

  Prioritized fictitious self-play (AlphaStar, Nature 575, 2019): rivals that
  are never beaten have weight 1, those that always are 0; power 0: all alike.
  """
  return (1 - p) ** power
