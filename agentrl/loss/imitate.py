"""Losses that imitate what went well, and treat apart what did not.

ρ, A and what weighs are those of `ppo`.
"""

from typing import Annotated

import chex
import jax
import jax.numpy as jnp

from agentrl import domain, registry, segment
from agentrl.loss import ppo, sequence
from agentrl.types import Array, Batch, Credit, Metrics, Outputs, Signals

Loss = tuple[Array, Array, Metrics]

NEEDS = ('output:logp', 'signal:old_logp')


@registry.register('loss', needs=NEEDS, takes='any')
def ipa(
  outputs: Outputs,
  batch: Batch,
  credit: Credit,
  signals: Signals,
  key: Array,
) -> Loss:
  """−sg[u] A log π   (IPA, arXiv 2512.24873)

  u = 1 where A > 0: imitation weighted by A. Elsewhere u = min(s_k, 1), s_k
  the geometric mean of ρ over the tokens of the turn: what already became
  rare is pushed no further with full force. Nothing else stops what is good
  from being imitated again and again: use each batch for few sub-updates.
  """
  log_rho = ppo.log_ratio(outputs, signals)
  weight, a = ppo.weight_of(batch, credit), credit.token
  s = jnp.exp(sequence.mean_log_ratio(log_rho, weight, batch, 'turn'))
  u = jnp.where(a > 0, 1, jnp.minimum(s, 1))
  metrics = {'ratio': ppo.metric(s, weight)}
  return -jax.lax.stop_gradient(u) * a * outputs.logp, weight, metrics


WEIGHTS = {
  'rest': lambda r: 1 - r,
  'deviation': lambda r: jnp.sqrt((1 - r) / r),
  'one': jnp.ones_like,
}


@registry.register('loss', needs=(*NEEDS, 'target:rate'), takes='any')
def nft(
  outputs: Outputs,
  batch: Batch,
  credit: Credit,
  signals: Signals,
  key: Array,
  *,
  negative: domain.NotNegative = 1.0,
  floor: domain.Positive = 1.0,
  weigh: Annotated[str, domain.OneOf(*WEIGHTS)] = 'rest',
) -> Loss:
  """Likelihood of the good, and of an implied policy of the bad.

    good (A > 0)   −w(r) log ρ
    bad            −w(r) n log max⁺((1 − r ρ) / (1 − r), floor)

  r = credit.target['rate'] is the share of the group that succeeded: if the
  old policy is r · good + (1 − r) · bad, the bad one is what stands in the
  logarithm. max⁺ has the value of the maximum and the gradient of its first
  argument; log ρ is no more than 10 (NFT, arXiv 2505.18116).

  Args:
    negative: n; 0 is rejection fine-tuning
    weigh: w(r): 'rest' 1 − r, 'deviation' √((1 − r) / r), whose first step is
      that of GRPO, 'one' 1
  """
  log_rho = ppo.log_ratio(outputs, signals)
  return _nft('nft', log_rho, batch, credit, negative, floor, weigh)


@registry.register(
  'loss', needs=(*NEEDS, 'target:rate'), takes='any', couples=True
)
def nft_sequence(
  outputs: Outputs,
  batch: Batch,
  credit: Credit,
  signals: Signals,
  key: Array,
  *,
  negative: domain.NotNegative = 1.0,
  floor: domain.Positive = 1.0,
  weigh: Annotated[str, domain.OneOf(*WEIGHTS)] = 'rest',
) -> Loss:
  """nft whose ρ is the product over the trajectory's tokens.

  All of them have the trajectory's value: the reducer 'trajectory_mean' counts
  it once, as the released code does.
  """
  rows = batch.rows
  b, k = batch.turns.valid.shape
  weight = ppo.weight_of(batch, credit)
  log_rho = jnp.where(weight > 0, ppo.log_ratio(outputs, signals), 0)
  traj, turn, k = segment.unit('trajectory', rows.traj, rows.turn, k)
  total = segment.to_turns(log_rho, traj, turn, b, k)
  log_rho = segment.to_tokens(total, traj, turn)
  name = 'nft_sequence'
  return _nft(name, log_rho, batch, credit, negative, floor, weigh)


def _nft(name, log_rho, batch, credit, negative, floor, weigh) -> Loss:
  if weigh not in WEIGHTS:
    raise ValueError(f'{name}.weigh={weigh!r}; choose from {tuple(WEIGHTS)}')
  log_rho, r = jnp.minimum(log_rho, 10), credit.target['rate']
  chex.assert_equal_shape([log_rho, r])
  weight, good = ppo.weight_of(batch, credit), credit.token > 0
  rest = (1 - r * jnp.exp(log_rho)) / (1 - r)
  held = rest + jax.lax.stop_gradient(jnp.maximum(rest, floor) - rest)
  value = jnp.where(good, -log_rho, -negative * jnp.log(held))
  metrics = {
    'good': ppo.metric(good, weight),
    'floor': ppo.metric(~good & (rest < floor), weight),
  }
  return WEIGHTS[weigh](r) * value, weight, metrics


@registry.register(
  'loss',
  needs=('output:logp', 'column:source', 'memory:replay'),
  takes='any',
)
def imitate(
  outputs: Outputs,
  batch: Batch,
  credit: Credit,
  signals: Signals,
  key: Array,
  *,
  clip_low: domain.Width = 0.2,
  clip_high: domain.Width = 0.28,
) -> Loss:
  """ppo against the log-probs that were stored, where A > 0  (2509.22601)

  A replayed token's ratio is to the policy that wrote it, however long ago;
  what is not better than usual now has no weight. Say by c.select that the
  term looks at the source of replayed trajectories.
  """
  chex.assert_equal_shape([outputs.logp, credit.token])
  a, weight = credit.token, ppo.weight_of(batch, credit)
  weight = jnp.where(a > 0, weight, 0)
  log_rho = jnp.clip(outputs.logp - batch.rows.logp, -20, 20)
  value = ppo.clipped(log_rho, a, clip_low, clip_high)
  metrics = ppo.ratio_metrics(log_rho, a, weight, clip_low, clip_high)
  return value, weight, metrics
