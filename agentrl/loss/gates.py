"""Losses that gate each token's gradient by its ratio, without a hard stop.

ρ, A and what weighs are those of `ppo`. On the first step, where ρ = 1, both
have the gradient of `reinforce`.
"""

import jax
import jax.numpy as jnp

from agentrl import ops, registry
from agentrl.domain import Positive
from agentrl.loss import ppo
from agentrl.types import Loss, LossInputs

_register = registry.register(
  'loss', needs=('output:logp', 'signal:old_logp'), takes='any'
)


@_register
def cispo(
  x: LossInputs, *, clip_low: ppo.ClipLow = 10.0, clip_high: ppo.ClipHigh = 0.2
) -> Loss:
  """−sg[clip(ρ, 1 − c_low, 1 + c_high)] A log π   (CISPO, arXiv 2506.13585)

  No token loses its gradient. With c_low above 1 there is no lower bound.
  """
  log_rho, a = ppo.log_ratio(x), x.credit.token
  weight = ppo.weight_of(x)
  value = ops.cispo(x.outputs.logp, log_rho, a, low=clip_low, high=clip_high)
  metrics = ppo.ratio_metrics(log_rho, a, weight, clip_low, clip_high)
  return value, metrics


@_register
def sapo(
  x: LossInputs, *, tau_positive: Positive = 1.0, tau_negative: Positive = 1.05
) -> Loss:
  """−(4/τ) σ(τ (ρ − 1)) A, τ by the sign of A   (SAPO, arXiv 2511.20347)

  The gradient is that of −ρ A times sech²(τ (ρ − 1) / 2).

  Args:
    tau_positive: steepness of the gate where A > 0
    tau_negative: steepness of the gate elsewhere
  """
  log_rho, a = ppo.log_ratio(x), x.credit.token
  weight = ppo.weight_of(x)
  tau = jnp.where(a > 0, tau_positive, tau_negative)
  rho = jnp.exp(log_rho)
  gate = jax.nn.sigmoid(tau * (rho - 1))
  share = jax.lax.stop_gradient(4 * gate * (1 - gate))
  metrics = {
    'ratio': ppo.metric(rho, weight),
    'approx_kl': ppo.metric(rho - 1 - log_rho, weight),
    'gate': ppo.metric(share, weight),
  }
  return -4 / tau * gate * a, metrics
