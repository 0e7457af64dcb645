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
  """½ max((v − R)², (clip(v, v_old − c, v_old + c) − R)²)

  v_old is signals['value'] [N, T], from when the update began.
  """
  v, target, weight = _read(outputs, credit, head)
  old = signals['value']
  near = old + jnp.clip(v - old, -clip, clip)
  free, bound = jnp.square(v - target), jnp.square(near - target)
  error = jnp.maximum(free, bound) / 2
  metrics = {
    'error': ppo.metric(free / 2, weight),
    'clip': ppo.metric(bound > free, weight),
  }
  return error, weight, metrics
