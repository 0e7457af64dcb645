"""KL penalties: distance of the policy from a reference (`ops.kl`)."""

import jax.numpy as jnp

from agentrl import ops, registry
from agentrl.loss import ppo
from agentrl.types import Loss, LossInputs

_register = registry.register(
  'loss', needs=('output:logp', 'signal:ref_logp'), takes='any'
)


def _loss(estimate, x: LossInputs) -> Loss:
  value = estimate(x.outputs.logp, x.signals['ref_logp'])
  return value, {'kl': ppo.metric(value, ppo.weight_of(x))}


@_register
def kl_k1(x: LossInputs) -> Loss:
  """Applies `ops.kl_k1`: an unbiased value whose mean gradient is zero."""
  return _loss(ops.kl_k1, x)


@_register
def kl_k2(x: LossInputs) -> Loss:
  """Applies `ops.kl_k2`, with the mean gradient of KL(π ‖ π_ref)."""
  return _loss(ops.kl_k2, x)


@_register
def kl_k3(x: LossInputs) -> Loss:
  """Applies `ops.kl_k3`, which is never negative (GRPO, arXiv 2402.03300)."""
  return _loss(ops.kl_k3, x)


@registry.register(
  'loss',
  needs=('output:logp', 'signal:old_logp', 'signal:ref_logp'),
  takes='any',
)
def kl_k3_weighted(x: LossInputs) -> Loss:
  """Computes ρ k3, whose mean over samples of π_old is KL(π ‖ π_ref).

    E_{y ~ π_old}[ρ (exp(d) − d − 1)] = KL(π ‖ π_ref),  ρ = π / π_old

  Its gradient flows through ρ too and is unbiased as well; k3 alone has the
  gradient of KL(π_ref ‖ π) at π_old = π (Skill-SD, arXiv 2604.10674).
  """
  logp, old = x.outputs.logp, x.signals['old_logp']
  assert logp is not None, 'a need of this loss'
  k3 = ops.kl_k3(logp, x.signals['ref_logp'])
  value = jnp.exp(ops.log_ratio(logp, old)) * k3
  return value, {'kl': ppo.metric(value, ppo.weight_of(x))}
