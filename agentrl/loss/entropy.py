"""The entropy bonus, and bands around the entropies of earlier iterations."""

from typing import Annotated

import chex
import jax
import jax.numpy as jnp

from agentrl import registry
from agentrl.domain import NotNegative, Number, Real
from agentrl.loss import ppo
from agentrl.types import Loss, LossInputs


@registry.register('loss', needs=('output:entropy',), takes='any')
def entropy(x: LossInputs) -> Loss:
  """−H, nats, of the distributions that sampled tokens were drawn from."""
  chex.assert_equal_shape([x.outputs.entropy, x.credit.weight])
  weight = ppo.weight_of(x)
  metrics = {'entropy': ppo.metric(x.outputs.entropy, weight)}
  return -x.outputs.entropy, metrics


_band = registry.register(
  'loss', needs=('output:entropy', 'signal:entropy_history'), takes='any'
)


def _outside(x: LossInputs, low, high):
  """Measures how far H is below and above the band, nats; 0 without history."""
  h, past = x.outputs.entropy, x.signals['entropy_history']
  chex.assert_equal_shape([h, past])
  has_past = x.signals['entropy_history.known'] > 0
  under = jnp.where(has_past, jnp.maximum(low * past - h, 0), 0)
  over = jnp.where(has_past, jnp.maximum(h - high * past, 0), 0)
  return under, over


@_band
def entropy_band(
  x: LossInputs,
  *,
  low: Annotated[float, Real(0, most='high')] = 0.5,
  high: NotNegative = 1.5,
  penalty: Number = 0.1,
) -> Loss:
  """p where H_t is not in [low, high] · H̄ of its turn index, 0 where it is.

  As EPO's code has it (2509.22576): logged, without a gradient.

  Args:
    low: lower end of the band, in units of H̄
    high: upper end of the band, in units of H̄
    penalty: p
  """
  under, over = _outside(x, low, high)
  out = jax.lax.stop_gradient((under > 0) | (over > 0))
  weight = ppo.weight_of(x)
  return penalty * out, {'outside': ppo.metric(out, weight)}


@_band
def entropy_hinge(
  x: LossInputs,
  *,
  low: Annotated[float, Real(0, most='high')] = 0.5,
  high: NotNegative = 1.5,
) -> Loss:
  """max(low H̄ − H_t, 0)² + max(H_t − high H̄, 0)², nats², which has one.

  The band is `entropy_band`'s; H̄ is not differentiated.

  Args:
    low: lower end of the band, in units of H̄
    high: upper end of the band, in units of H̄
  """
  under, over = _outside(x, low, high)
  weight = ppo.weight_of(x)
  out = (under > 0) | (over > 0)
  metrics = {'outside': ppo.metric(out, weight)}
  return jnp.square(under) + jnp.square(over), metrics
