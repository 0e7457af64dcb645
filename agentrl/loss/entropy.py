"""The entropy bonus, and bands around the entropies of earlier iterations."""

from typing import Annotated

import chex
import jax
import jax.numpy as jnp

from agentrl import domain, registry
from agentrl.loss import ppo
from agentrl.types import Array, Batch, Credit, Metrics, Outputs, Signals


@registry.register('loss', needs=('output:entropy',), takes='any')
def entropy(
  outputs: Outputs,
  batch: Batch,
  credit: Credit,
  signals: Signals,
  key: Array,
) -> tuple[Array, Array, Metrics]:
  """−H, nats, of the distributions that sampled tokens were drawn from."""
  chex.assert_equal_shape([outputs.entropy, credit.weight])
  weight = ppo.weight_of(batch, credit)
  metrics = {'entropy': ppo.metric(outputs.entropy, weight)}
  return -outputs.entropy, weight, metrics


_band = registry.register(
  'loss',
  needs=('output:entropy', 'signal:entropy_history'),
  takes='any',
)


def _outside(outputs: Outputs, signals: Signals, low, high):
  """How far H is below and above the band, nats; 0 without a history."""
  h, past = outputs.entropy, signals['entropy_history']
  chex.assert_equal_shape([h, past])
  known = signals['entropy_history.known'] > 0
  under = jnp.where(known, jnp.maximum(low * past - h, 0), 0)
  over = jnp.where(known, jnp.maximum(h - high * past, 0), 0)
  return under, over


@_band
def entropy_band(
  outputs: Outputs,
  batch: Batch,
  credit: Credit,
  signals: Signals,
  key: Array,
  *,
  low: Annotated[float, domain.Real(0, most='high')] = 0.5,
  high: domain.NotNegative = 1.5,
  penalty: domain.Number = 0.1,
) -> tuple[Array, Array, Metrics]:
  """p where H_t is not in [low, high] · H̄ of its turn index, 0 where it is.

  As EPO's code has it (2509.22576): a number that is told and has no gradient.
  """
  under, over = _outside(outputs, signals, low, high)
  out = jax.lax.stop_gradient((under > 0) | (over > 0))
  weight = ppo.weight_of(batch, credit)
  return penalty * out, weight, {'outside': ppo.metric(out, weight)}


@_band
def entropy_hinge(
  outputs: Outputs,
  batch: Batch,
  credit: Credit,
  signals: Signals,
  key: Array,
  *,
  low: Annotated[float, domain.Real(0, most='high')] = 0.5,
  high: domain.NotNegative = 1.5,
) -> tuple[Array, Array, Metrics]:
  """max(low H̄ − H_t, 0)² + max(H_t − high H̄, 0)², nats², which has one.

  The band is `entropy_band`'s; H̄ is not differentiated.
  """
  under, over = _outside(outputs, signals, low, high)
  weight = ppo.weight_of(batch, credit)
  out = (under > 0) | (over > 0)
  metrics = {'outside': ppo.metric(out, weight)}
  return jnp.square(under) + jnp.square(over), weight, metrics
