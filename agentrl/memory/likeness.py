"""How like each other texts of tokens are, inside jit."""

from typing import Protocol

import jax
import jax.numpy as jnp

from agentrl.text import observation_tokens
from agentrl.types import Array

DIMENSIONS = 512  # of a sketch: a cosine errs by about 0.04


class Texts(Protocol):
  """n texts of at most W tokens."""

  tokens: Array  # [n, W] i32
  length: Array  # [n] i32


def alike(x: Texts, y: Texts, merge: float) -> Array:
  """Marks texts of x that are like texts of y: [n, m] bool.

  cos(sketch, sketch) >= merge,   or with merge = 1 the same text
  """
  if merge >= 1:
    a, b = (
      jax.vmap(observation_tokens.content_hash)(t.tokens, t.length)
      for t in (x, y)
    )
    return a[:, None] == b[None]
  return sketches(x) @ sketches(y).T >= merge


def sketches(x: Texts) -> Array:
  """Sketches texts by their unigrams and bigrams, hashed: [n, D] f32.

    s_d = sum over n-grams g with h(g) = d of sign(g) n_g,     s / |s|

  The inner product of two is the cosine of their counts, up to collisions, and
  0 for a text without tokens.
  """
  s = jax.vmap(_counts)(x.tokens, x.length)
  size = jnp.linalg.norm(s, axis=1, keepdims=True)
  return s / jnp.where(size > 0, size, 1)


def _counts(tokens: Array, length: Array) -> Array:
  """Counts hashed n-grams of tokens[:length], each by its sign: [D] f32."""
  one = jnp.stack([tokens, jnp.zeros_like(tokens)], axis=1)  # [W, 2]
  two = jnp.stack([tokens[:-1], tokens[1:]], axis=1)  # [W-1, 2]
  at = jnp.arange(len(tokens))
  count = jnp.concatenate([at < length, at[1:] < length])
  size = jnp.where(jnp.arange(len(count)) < len(tokens), 1, 2)
  grams = jnp.concatenate([one, two])
  h = jax.vmap(observation_tokens.content_hash)(grams, size)
  sign = jnp.where(h >> 30 & 1, -1.0, 1.0)
  return jnp.zeros(DIMENSIONS).at[h % DIMENSIONS].add(sign * count)
