"""A trust region in probabilities instead of ratios (DPPO, arXiv 2602.04879).

  −sg[ M min(ρ, c) ] A log π,   ρ = π / μ

μ is the policy that wrote the token: the behaviour log-prob, not the
learner's when the update began. M drops a token whose probability moved too
far from μ in the direction of A:

  M = 0 where D > δ and (ρ > 1 if A > 0, ρ < 1 if A < 0), else 1

D is the divergence of two choices, the token taken or any other. A ratio is
noisy for rare tokens, which are hardly moved by it, and blind for likely ones.
"""

import chex
import jax
import jax.numpy as jnp

from agentrl import ops, registry
from agentrl.advantage import importance
from agentrl.domain import Positive, Width
from agentrl.loss import ppo
from agentrl.types import Loss, LossInputs

_register = registry.register('loss', needs=('output:logp',), takes='any')


def _masked(divergence, x: LossInputs, threshold, limit) -> Loss:
  logp, a = x.outputs.logp, x.credit.token
  chex.assert_rank(logp, 2)
  chex.assert_equal_shape([logp, a])
  now = jax.lax.stop_gradient(logp)
  log_mu = importance.behaviour(x.batch.rows, now)
  log_rho = jnp.clip(now - log_mu, -20, 20)
  d = divergence(now, log_mu)
  out = (d > threshold) & (a * log_rho > 0)
  rho = jnp.minimum(jnp.exp(log_rho), limit)
  weight = ppo.weight_of(x)
  metrics = {
    'ratio': ppo.metric(jnp.exp(log_rho), weight),
    'divergence': ppo.metric(d, weight),
    'mask': ppo.metric(out, weight),
  }
  return -jnp.where(out, 0, rho) * a * logp, metrics


@_register
def dppo_tv(
  x: LossInputs, *, threshold: Positive = 0.15, limit: Width = 20.0
) -> Loss:
  """Computes DPPO with D = |π − μ|, the binary total variation.

  Args:
    threshold: largest D of a token that moves on, in [0, 1]
    limit: largest ρ that weighs; inf: any
  """
  return _masked(ops.binary_tv, x, threshold, limit)


@_register
def dppo_kl(
  x: LossInputs, *, threshold: Positive = 0.05, limit: Width = 20.0
) -> Loss:
  """Computes DPPO with D = KL(μ ‖ π) of taken or not taken, nats.

  Args:
    threshold: largest D of a token that moves on, nats
    limit: largest ρ that weighs; inf: any
  """
  return _masked(ops.binary_kl, x, threshold, limit)
