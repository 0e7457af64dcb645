"""Likenesses of texts against cosines of counts by dictionaries."""

import collections
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.memory import likeness, texts

W = 24


def grams(x):
  return collections.Counter([*[(i,) for i in x], *itertools.pairwise(x)])


def cosine(x, y):
  a, b = grams(x), grams(y)
  size = math.sqrt(sum(n * n for n in a.values()))
  size *= math.sqrt(sum(n * n for n in b.values()))
  return sum(n * b[g] for g, n in a.items()) / (size or 1)


def bank(some):
  tokens = np.full((len(some), W), 77, np.int32)  # what is past the end
  for row, x in zip(tokens, some, strict=True):
    row[: len(x)] = x
  length = jnp.array([len(x) for x in some], jnp.int32)
  made = texts.empty(len(some), W, 1)
  return made.replace(tokens=jnp.asarray(tokens), length=length)


def test_sketches_have_the_cosines_of_counts():
  rng = np.random.default_rng(0)
  some = [rng.integers(0, 5, rng.integers(1, W)).tolist() for _ in range(20)]
  some += [[], some[3], [*some[3][:-1], 9]]
  sketch = np.asarray(jax.jit(likeness.sketches)(bank(some)))
  want = np.array([[cosine(x, y) for y in some] for x in some])
  assert np.max(np.abs(sketch @ sketch.T - want)) < 0.3
  assert np.mean(np.abs(sketch @ sketch.T - want)) < 0.03
  # The same text is like itself, whatever collides.
  alike = np.asarray(likeness.alike(bank(some), bank(some), 0.999))
  assert alike[3, 21]
  assert not alike[3, 22]
  assert not alike[20, 20]
  same = np.asarray(likeness.alike(bank(some), bank(some), 1.0))
  assert same.tolist() == [[x == y for y in some] for x in some]
