"""Loss of trajectories whose first turns the policy was given."""

import jax.numpy as jnp

from agentrl import ops, registry
from agentrl.domain import Width
from agentrl.loss import nll, ppo
from agentrl.types import Loss, LossInputs, Span


@registry.register(
  'loss',
  needs=('output:logp', 'signal:old_logp', 'weight:prefix'),
  takes='any',
  weight=nll.every_weight,
)
def ppo_prefix(
  x: LossInputs,
  *,
  clip_low: Width = 0.2,
  clip_high: Width = 0.2,
  prefix_clip_low: Width = 0.2,
  prefix_clip_high: Width = 0.2,
) -> Loss:
  """Runs `ppo` over prefix and sampled tokens, one mean of both (2507.01679).

  Of a prefix token, too, π_old is the policy when the update began: it is
  moved as if the policy had sampled it. Metrics of ratios are those of sampled
  tokens; `prefix_ratio` is that of prefix tokens, `prefix` their share.

  Args:
    clip_low, clip_high: of sampled tokens
    prefix_clip_low, prefix_clip_high: of prefix tokens
  """
  log_rho, a = ppo.log_ratio(x), x.credit.token
  prefix = x.batch.rows.span == Span.PREFIX
  value, metrics = ppo.clipped(
    log_rho, a, ppo.weight_of(x), clip_low, clip_high
  )
  given = ops.ppo_clip(log_rho, a, low=prefix_clip_low, high=prefix_clip_high)
  weight = x.credit.weight
  metrics |= {
    'prefix_ratio': ppo.metric(jnp.exp(log_rho), weight * prefix),
    'prefix': ppo.metric(prefix, weight),
  }
  return jnp.where(prefix, given, value), metrics
