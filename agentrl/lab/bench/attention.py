"""Attention benchmarks of `experiments.bench`: each kernel that runs here.

Rows of one segment, forwards and backwards, each kernel's answers and gradients
held against those of blocks (nn/chunked_attention.py).
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.lab.bench.roofline import KernelWork
from agentrl.lab.bench.sampling import BenchCase, SamplingBenchSize
from agentrl.nn import attention, attention_kernels
from agentrl.nn.attention_kernels import DEVICES

PRODUCTS = 7  # two forwards, five backwards: scores are made again
# Largest difference to blocks, as a share of the largest number.
TOLERANCE = {'float32': 1e-4, 'bfloat16': 3e-2, 'float16': 1e-2}


def kernels(size: SamplingBenchSize, data: str) -> dict[str, BenchCase]:
  """Times value and gradient of attention over the rows of a gradient step.

  Raises: ValueError where a kernel answers otherwise than blocks do.
  """
  del data
  shape, (n, t) = size.shape, (size.micro, size.tokens)
  args = _example(size)
  names = 'chunked', *(k for k in ('xla', *DEVICES) if _runs(k, size))
  calls = {name: functools.partial(_program(name), *args) for name in names}
  want = calls['chunked']()
  pairs = n * t * (t + 1) / 2
  operations = 2 * PRODUCTS * shape.heads * shape.head_dim * pairs
  moved = 2 * sum(x.nbytes for x in args[:3])
  parts = (KernelWork(operations, moved),)
  out = {}
  for name, call in calls.items():
    off = _difference(call(), want)
    if off > TOLERANCE[shape.dtype]:
      raise ValueError(
        f'attention by {name!r} differs from blocks by {off:.2g} of the'
        f' largest number; in {shape.dtype}, at most'
        f' {TOLERANCE[shape.dtype]} is rounding'
      )
    text = f'{n} rows of {t}, {shape.dtype}, off by {off:.1g}'
    case = BenchCase(text, call, parts, {'tokens': n * t})
    out[f'attention_{name}'] = case
  return out


def _runs(name: str, size: SamplingBenchSize) -> bool:
  """Returns whether the kernel reads such rows on this device."""
  if name == 'xla':
    return size.tokens <= 1024  # all scores are held
  shape = size.shape
  here = DEVICES[name] == jax.default_backend()
  return (
    here
    and attention_kernels.choose(
      name, size.tokens, shape.head_dim, shape.dtype, shape.score_cap
    )
    == name
  )


def _example(size: SamplingBenchSize):
  """Makes q, k, v, until, and a cotangent."""
  s, (n, t) = size.shape, (size.micro, size.tokens)
  r = np.random.default_rng(0)
  q, bar = (_draw(r, (n, t, s.heads, s.head_dim), s.dtype) for _ in range(2))
  k, v = (_draw(r, (n, t, s.kv_heads, s.head_dim), s.dtype) for _ in range(2))
  return q, k, v, jnp.full((n, t), t - 1, jnp.int32), bar


def _draw(r, shape, dtype: str):
  return jnp.asarray(r.normal(size=shape), dtype)


def _program(name: str):
  """Jits (q, k, v, until, cotangent) -> answers, gradients of q, k, v."""
  c = attention_kernels.config(window=0, size=0)

  def attend(q, k, v, until):
    if name == 'xla':
      return attention.attend(q, k, v, attention.row_mask(until))
    return attention_kernels.attend(name, c, q, k, v, until)

  def run(q, k, v, until, bar):
    out, pull = jax.vjp(lambda *a: attend(*a, until), q, k, v)
    return out, *pull(bar)

  return jax.jit(run)


def _difference(got, want) -> float:
  """Measures the largest difference of any array, relative to its maximum."""
  return max(
    float(jnp.max(jnp.abs(x - y)) / jnp.max(jnp.abs(y)))
    for x, y in zip(
      *([a.astype(jnp.float32) for a in z] for z in (got, want)), strict=True
    )
  )
