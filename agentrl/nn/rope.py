"""Rotary positions (2104.09864): frequencies and rotation.

Pair i of a head turns by pos * freq_i, freq_i = theta^(-2i / d). A model that
was stretched to longer rows than it had been trained on has other frequencies:
its `Scaling` says which.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp

from agentrl.types import Array


class Linear(NamedTuple):
  """Every position closer to the last: freq / factor (2306.15595)."""

  factor: float

  def __call__(self, freq_F: Array, theta: float):
    return freq_F / self.factor, 1.0


class Llama3(NamedTuple):
  """As Llama 3.1: slow pairs as `Linear`, fast ones as they are.

  With r = context * freq / 2π, the rounds a pair made while training: at
  r <= low freq / factor, at r >= high freq, between them mixed linearly in r.
  """

  factor: float
  low: float
  high: float
  context: int  # tokens; of rows before the stretch

  def __call__(self, freq_F: Array, theta: float):
    rounds = self.context * freq_F / (2 * math.pi)
    keep = jnp.clip((rounds - self.low) / (self.high - self.low), 0.0, 1.0)
    return keep * freq_F + (1 - keep) * freq_F / self.factor, 1.0


class Yarn(NamedTuple):
  """YaRN (2309.00071): as `Llama3`, but mixed linearly in the pair's index.

  Pairs that made `fast` rounds in `context` tokens keep their frequency, those
  that made `slow` are divided by the factor. Scores grow by amplitude²; the
  paper's amplitude is 0.1 ln(factor) + 1.
  """

  factor: float
  context: int
  amplitude: float
  fast: float = 32.0
  slow: float = 1.0
  whole: bool = True  # the ramp begins and ends at whole indices

  def __call__(self, freq_F: Array, theta: float):
    d = 2 * freq_F.shape[0]

    def index(rounds: float) -> float:
      """Finds the index of the pair that turns `rounds` times in `context`."""
      period = self.context / (rounds * 2 * math.pi)
      return d * math.log(period) / (2 * math.log(theta))

    low, high = index(self.fast), index(self.slow)
    if self.whole:
      low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, d - 1)
    width = (high - low) or 1e-3
    i = jnp.arange(freq_F.shape[0], dtype=jnp.float32)
    slow = jnp.clip((i - low) / width, 0.0, 1.0)
    mixed = (1 - slow) * freq_F + slow * freq_F / self.factor
    return mixed, self.amplitude


# (frequencies [F] f32, theta) -> frequencies, and the amplitude of cos and sin
Scaling = Linear | Llama3 | Yarn


class Rope(NamedTuple):
  """Base and scaling of a layer's rotary positions."""

  theta: float
  scaling: Scaling | None = None


def frequencies(rope: Rope, half: int) -> tuple[Array, float]:
  """Returns radians per position of `half` pairs [F] f32, and the amplitude."""
  freq = rope.theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
  return rope.scaling(freq, rope.theta) if rope.scaling else (freq, 1.0)


def rotate(rope: Rope, x_NTHd, pos_NT):
  """Rotates a head's two halves: (a, b) -> (a cos - b sin, b cos + a sin).

  Returns: [N, T, H, d]
  """
  half = x_NTHd.shape[-1] // 2
  freq, amplitude = frequencies(rope, half)
  angle = pos_NT[..., None, None].astype(jnp.float32) * freq.reshape(
    1, 1, 1, half
  )
  cos, sin = jnp.cos(angle), jnp.sin(angle)  # [N, T, 1, d/2]
  if amplitude != 1.0:
    cos, sin = amplitude * cos, amplitude * sin
  a, b = jnp.split(x_NTHd.astype(jnp.float32), 2, axis=-1)
  out = jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)
  return out.astype(x_NTHd.dtype)
