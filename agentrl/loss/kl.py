"""How far the policy is from a reference, estimated on sampled tokens.

d = clip(log π_ref − log π, ±20)        http://joschu.net/blog/kl-approx.html
"""

import chex
import jax.numpy as jnp

from agentrl import registry
from agentrl.loss import ppo
from agentrl.types import Array, Batch, Credit, Metrics, Outputs, Signals

Loss = tuple[Array, Array, Metrics]

_register = registry.register(
  'loss', needs=('output:logp', 'signal:ref_logp'), takes='any'
)


def log_ratio(outputs: Outputs, signals: Signals) -> Array:
  """d [N, T], nats."""
  chex.assert_rank(outputs.logp, 2)
  chex.assert_equal_shape([outputs.logp, signals['ref_logp']])
  return jnp.clip(signals['ref_logp'] - outputs.logp, -20, 20)


def _loss(value, batch: Batch, credit: Credit) -> Loss:
  weight = ppo.weight_of(batch, credit)
  return value, weight, {'kl': ppo.metric(value, weight)}


@_register
def kl_k1(
  outputs: Outputs,
  batch: Batch,
  credit: Credit,
  signals: Signals,
  key: Array,
) -> Loss:
  """k1 = −d. Unbiased as a number; its gradient is zero on average."""
  return _loss(-log_ratio(outputs, signals), batch, credit)


@_register
def kl_k2(
  outputs: Outputs,
  batch: Batch,
  credit: Credit,
  signals: Signals,
  key: Array,
) -> Loss:
  """k2 = d²/2, whose gradient is that of KL(π ‖ π_ref) on average."""
  return _loss(jnp.square(log_ratio(outputs, signals)) / 2, batch, credit)


@_register
def kl_k3(
  outputs: Outputs,
  batch: Batch,
  credit: Credit,
  signals: Signals,
  key: Array,
) -> Loss:
  """k3 = clip(exp(d) − d − 1, ±10), never negative (GRPO, arXiv 2402.03300)."""
  d = log_ratio(outputs, signals)
  return _loss(jnp.clip(jnp.exp(d) - d - 1, -10, 10), batch, credit)
