"""Regression of a value head on the returns that credit assignment wrote.

R = credit.target['value'], weighed by credit.target['value.weight'].
"""

import chex
import jax.numpy as jnp

from agentrl import domain, registry
from agentrl.loss import ppo
from agentrl.types import Array, Batch, Credit, Metrics, Outputs, Signals

Loss = tuple[Array, Array, Metrics]


def _read(outputs: Outputs, credit: Credit, head: int):
  """v, R and weight, [N, T] each."""
  chex.assert_rank(outputs.value, 3)
  v, target = outputs.value[..., head], credit.target['value']
  chex.assert_equal_shape([v, target])
  return v, target, credit.target['value.weight']


def clipped_error(
  v: Array, target: Array, old: Array, clip: float
) -> tuple[Array, Array]:
  """½ max((v − R)², (clip(v, v_old ± c) − R)²), and whether |v − v_old| > c.

  The bounds are clipped to, not the difference: v_old + (v − v_old) is v only
  up to rounding, which would pass for clipping.
  """
  near = jnp.clip(v, old - clip, old + clip)
  error = jnp.maximum(jnp.square(v - target), jnp.square(near - target)) / 2
  return error, jnp.abs(v - old) > clip


@registry.register('loss', needs=('output:value', 'target:value'), takes='any')
def value(
  outputs: Outputs,
  batch: Batch,
  credit: Credit,
  signals: Signals,
  key: Array,
  *,
  head: domain.Count0 = 0,
) -> Loss:
  """½ (v − R)²"""
  v, target, weight = _read(outputs, credit, head)
  error = jnp.square(v - target) / 2
  return error, weight, {'error': ppo.metric(error, weight)}


@registry.register(
  'loss', needs=('output:value', 'target:value', 'signal:value'), takes='any'
)
def value_clipped(
  outputs: Outputs,
  batch: Batch,
  credit: Credit,
  signals: Signals,
  key: Array,
  *,
  head: domain.Count0 = 0,
  clip: domain.Width = 0.2,
) -> Loss:
  """`clipped_error`, v_old = signals['value'] from when the update began.

  Metrics: error, without the clip, and clip, the share further away than c.
  """
  v, target, weight = _read(outputs, credit, head)
  error, outside = clipped_error(v, target, signals['value'], clip)
  metrics = {
    'error': ppo.metric(jnp.square(v - target) / 2, weight),
    'clip': ppo.metric(outside, weight),
  }
  return error, weight, metrics
