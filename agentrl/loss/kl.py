"""KL penalties: distance of the policy from a reference (`ops.kl`)."""

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
  """`ops.kl_k1`: unbiased as a number, with no gradient on average."""
  return _loss(ops.kl_k1, x)


@_register
def kl_k2(x: LossInputs) -> Loss:
  """`ops.kl_k2`: its gradient is that of KL(π ‖ π_ref) on average."""
  return _loss(ops.kl_k2, x)


@_register
def kl_k3(x: LossInputs) -> Loss:
  """`ops.kl_k3`: never negative (GRPO, arXiv 2402.03300)."""
  return _loss(ops.kl_k3, x)
