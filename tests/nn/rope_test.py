"""Stretched rotary positions against their papers, in plain Python."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.nn import rope

HALF, THETA = 32, 10_000.0
PLAIN = [THETA ** (-i / HALF) for i in range(HALF)]


def frequencies(scaling):
  return rope.frequencies(rope.Rope(THETA, scaling), HALF)


def test_linear_divides_positions():
  got, amplitude = frequencies(rope.Linear(4.0))
  np.testing.assert_allclose(got, np.array(PLAIN) / 4, rtol=1e-5)
  assert amplitude == 1.0


def test_llama3_keeps_short_waves_and_stretches_long_ones():
  context, low, high = 512, 1.0, 4.0
  got, _ = frequencies(rope.Llama3(8.0, low, high, context))
  kinds = set()
  for f, g in zip(PLAIN, got, strict=True):
    wave = 2 * math.pi / f
    if wave < context / high:
      want, kind = f, 'short'
    elif wave > context / low:
      want, kind = f / 8, 'long'
    else:
      mix = (context / wave - low) / (high - low)
      want, kind = (1 - mix) * f / 8 + mix * f, 'between'
    np.testing.assert_allclose(g, want, rtol=1e-5)
    kinds.add(kind)
  assert kinds == {'short', 'long', 'between'}


@pytest.mark.parametrize('whole', [True, False])
def test_yarn_keeps_fast_pairs_and_stretches_slow_ones(whole):
  context, fast, slow = 512, 16.0, 2.0
  scaling = rope.Yarn(8.0, context, 1.25, fast, slow, whole)
  got, amplitude = frequencies(scaling)
  assert amplitude == 1.25
  # Index of the pair that makes r rounds in the context: continuous in r.
  ends = [
    HALF * math.log(context / (r * 2 * math.pi), THETA) for r in (fast, slow)
  ]
  if whole:
    ends = [math.floor(ends[0]), math.ceil(ends[1])]
  for i, (f, g) in enumerate(zip(PLAIN, got, strict=True)):
    mix = min(1.0, max(0.0, (i - ends[0]) / (ends[1] - ends[0])))
    np.testing.assert_allclose(g, (1 - mix) * f + mix * f / 8, rtol=1e-5)
  np.testing.assert_allclose(got[0], PLAIN[0], rtol=1e-6)
  np.testing.assert_allclose(got[-1], PLAIN[-1] / 8, rtol=1e-5)


def test_turning_depends_on_distance_alone():
  """(R_s q) (R_t k) is that of any s, t as far apart; lengths grow by a."""
  rng = np.random.default_rng(0)
  q, k = jnp.asarray(rng.normal(size=(2, 1, 1, 1, 2 * HALF)), jnp.float32)
  scaling = rope.Yarn(4.0, 64, 1.5)

  def at(x, t):
    return rope.rotate(rope.Rope(THETA, scaling), x, jnp.full((1, 1), t))

  scores = [jnp.vdot(at(q, t + 5), at(k, t)) for t in (0, 3, 40)]
  np.testing.assert_allclose(scores, scores[:1] * 3, rtol=1e-4)
  size = jnp.linalg.norm(at(q, 7)) / jnp.linalg.norm(q)
  np.testing.assert_allclose(size, 1.5, rtol=1e-5)
