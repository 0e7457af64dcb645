"""Regression of a value head on the returns that credit assignment wrote.

R = credit.target['value'], weighed by credit.target['value.weight'].
"""

import chex
import jax.numpy as jnp

from agentrl import ops, registry
from agentrl.domain import Count0, Width
from agentrl.loss import ppo
from agentrl.types import Array, Loss, LossInputs


def target_weight(x: LossInputs) -> Array:
  """Returns the weights [N, T] of the tokens that are regressed."""
  return x.credit.target['value.weight']


def _read(x: LossInputs, head: int):
  """Reads v, R and weight, [N, T] each."""
  chex.assert_rank(x.outputs.value, 3)
  v, target = x.outputs.value[..., head], x.credit.target['value']
  chex.assert_equal_shape([v, target])
  return v, target, target_weight(x)


@registry.register(
  'loss',
  needs=('output:value', 'target:value'),
  takes='any',
  weight=target_weight,
)
def value(x: LossInputs, *, head: Count0 = 0) -> Loss:
  """½ (v − R)²

  Args:
    head: which of the policy's value heads
  """
  v, target, weight = _read(x, head)
  error = jnp.square(v - target) / 2
  return error, {'error': ppo.metric(error, weight)}


@registry.register(
  'loss',
  needs=('output:value', 'target:value', 'signal:value'),
  takes='any',
  weight=target_weight,
)
def value_clipped(
  x: LossInputs, *, head: Count0 = 0, clip: Width = 0.2
) -> Loss:
  """Takes `ops.clipped_error`; v_old = signals['value'] of the update's start.

  Metrics: error, without the clip, and clip, the share of tokens whose clipped
  error is the larger one.

  Args:
    head: which of the policy's value heads
    clip: how far v may move from v_old, in units of the return; inf: any
  """
  v, target, weight = _read(x, head)
  error, clipped = ops.clipped_error(v, target, x.signals['value'], clip)
  metrics = {
    'error': ppo.metric(jnp.square(v - target) / 2, weight),
    'clip': ppo.metric(clipped, weight),
  }
  return error, metrics
