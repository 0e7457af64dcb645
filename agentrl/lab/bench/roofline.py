"""Roofline bounds: least operations and bytes of the benchmark cases.

An operation is one multiplication or addition; bytes are read or written, of
numbers as the decoder computes with them, and of float32 where it learns.
Products with weights, and attention of each token to itself
and what stands before it; norms, softmax and the like are not counted.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import mesh
from agentrl.lab.bench import timing
from agentrl.nn import transformer

FLOAT = 4  # bytes
COPIED = 1 << 26  # numbers that are copied: more than any cache holds
# A parameter's traffic in one step of Adam: gradient written and read, two
# moments and the parameter read and written.
ADAM = 8


class Trial(NamedTuple):
  """What the rates are measured with."""

  side: int  # of the large product
  few: int  # rows of the small one; 0: its rate is that of the large one
  calls: int  # in a program: what starting it takes is no part of the rate


# An accelerator ends one product sooner than a program starts; where rows are
# few it waits for the weights, whose bytes are counted.
ON_CPU, ON_ACCELERATOR = Trial(2048, 32, 1), Trial(8192, 0, 16)


class Rates(NamedTuple):
  """Rates of the machine, as measured: the best of the repeats."""

  large: float  # operations per second, product of as many rows as columns
  few: float  # operations per second, product of few rows
  copy: float  # bytes per second, read and written


class KernelWork(NamedTuple):
  """Work of one kind. few: its products have few rows."""

  operations: float
  bytes: float
  few: bool = False


def bound(parts: Sequence[KernelWork], rates: Rates) -> float:
  """Bounds the seconds that the parts take from below, one after another."""
  total = 0.0
  for p in parts:
    products = p.operations / (rates.few if p.few else rates.large)
    total += max(products, p.bytes / rates.copy)
  return total


def rates(repeats: int, dtype: str = 'float32') -> Rates:
  """Measures the machine; products are of that dtype."""
  trial = ON_CPU if jax.default_backend() == 'cpu' else ON_ACCELERATOR
  side, calls = trial.side, trial.calls
  weight = jax.random.normal(jax.random.key(0), (side, side)) / math.sqrt(side)
  weight, numbers = weight.astype(dtype), jnp.ones(COPIED, jnp.float32)

  @jax.jit
  def multiply(x, weight):
    return jax.lax.fori_loop(0, calls, lambda _, x: x @ weight, x)

  @jax.jit
  def copy(x):
    return jax.lax.fori_loop(0, calls, lambda _, x: x + 1, x)

  def rate(rows: int, repeats: int) -> float:
    best = _best(multiply, weight[:rows], weight, repeats=repeats)
    return calls * 2 * rows * side**2 / best

  large = rate(side, repeats)
  copied = _best(copy, numbers, repeats=repeats)
  return Rates(
    large=large,
    few=rate(trial.few, 20 * repeats) if trial.few else large,
    copy=calls * 2 * FLOAT * COPIED / copied,
  )


def _best(f, *args, repeats: int) -> float:
  timing.seconds(f, *args)  # compiles
  return min(timing.seconds(f, *args) for _ in range(repeats))


def body(c: transformer.DecoderConfig) -> int:
  """Counts weights a token is multiplied with on its way through the layers."""
  attention = c.width * c.head_dim * 2 * (c.heads + c.kv_heads)
  return c.layers * (attention + 3 * c.width * c.mlp)


def pairs(start, length):
  """Counts (token, key) pairs of `length` tokens that follow `start` others."""
  start, length = np.float64(start), np.float64(length)
  return float(np.sum(length * start + length * (length + 1) / 2))


def reading(c: transformer.DecoderConfig, start, length, heads: float) -> float:
  """Counts the operations of a forward pass.

  Args:
    start, length: arrays [n]; `length` tokens follow `start` that were read
    heads: tokens whose logits are computed
  """
  weights = 2 * body(c) * float(np.sum(length))
  scores = 4 * c.layers * c.heads * c.head_dim * pairs(start, length)
  return weights + scores + 2 * c.width * c.vocab * heads


def key_bytes(c: transformer.DecoderConfig) -> int:
  """Counts bytes of a cached token: its keys and values in all layers."""
  number = jnp.dtype(c.dtype).itemsize
  return 2 * number * c.layers * c.kv_heads * c.head_dim


def speaking(
  c: transformer.DecoderConfig, start, context, message, *, slots: int
) -> tuple[KernelWork, KernelWork]:
  """Returns (prefill, decode) of turns [n]: `context` read, `message` sampled.

  The last token said is not read back. Slots share a pass over the weights.
  """
  start, context, message = map(np.asarray, (start, context, message))
  number = jnp.dtype(c.dtype).itemsize
  weights = number * mesh.count(transformer.specs(c))
  steps = np.maximum(message - 1, 0)
  passes = -(-len(context) // slots)
  key = key_bytes(c)
  decoded = key * pairs(start + context, steps)
  return (
    KernelWork(
      reading(c, start, context, len(context)),
      weights * passes + key * float(np.sum(start + context)),
    ),
    KernelWork(
      reading(c, start + context, steps, float(np.sum(steps))),
      weights * float(np.sum(steps)) / slots + decoded,
      few=True,
    ),
  )


def updating(
  c: transformer.DecoderConfig, length, heads: int, *, roles: int
) -> tuple[KernelWork]:
  """Counts a gradient step of each role: backward costs two forward passes.

  Args:
    length: [n] tokens of the rows
    heads: tokens whose log-prob is needed
  """
  ops = 3 * reading(c, np.zeros_like(length), length, heads)
  moved = ADAM * FLOAT * mesh.count(transformer.specs(c))
  return (KernelWork(roles * ops, roles * moved),)
