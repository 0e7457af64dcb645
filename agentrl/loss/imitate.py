"""Imitation losses: IPA, NFT and self-imitation.

ρ, A and what weighs are those of `ppo`.
"""

from typing import Annotated

import chex
import jax
import jax.numpy as jnp

from agentrl import ops, registry, segment
from agentrl.domain import (
  NotNegative,
  OneOf,
  Positive,
  Real,
  Share,
)
from agentrl.loss import covariance, ppo, sequence
from agentrl.types import Array, Loss, LossInputs

NEEDS = ('output:logp', 'signal:old_logp')


@registry.register('loss', needs=NEEDS, takes='any', unbounded=True)
def ipa(x: LossInputs) -> Loss:
  """−sg[u] A log π   (IPA, arXiv 2512.24873)

  u = 1 where A > 0: imitation weighted by A. Elsewhere u = min(s_k, 1), s_k
  the geometric mean of ρ over the tokens of the turn: what already became
  rare is pushed no further with full force. Nothing else stops what is good
  from being imitated again and again: use each batch for few sub-updates.
  """
  a = x.credit.token
  s = jnp.exp(sequence.mean_log_ratio(ppo.log_ratio(x), x, 'turn'))
  u = jnp.where(a > 0, 1, jnp.minimum(s, 1))
  metrics = {'ratio': ppo.metric(s, ppo.weight_of(x))}
  return -jax.lax.stop_gradient(u) * a * x.outputs.logp, metrics


WEIGHTS = {
  'rest': lambda r: 1 - r,
  'deviation': lambda r: jnp.sqrt((1 - r) / r),
  'one': jnp.ones_like,
}


@registry.register('loss', needs=(*NEEDS, 'target:rate'), takes='any')
def nft(
  x: LossInputs,
  *,
  negative: NotNegative = 1.0,
  floor: Positive = 1.0,
  weigh: Annotated[str, OneOf(*WEIGHTS)] = 'rest',
) -> Loss:
  """Computes the likelihood of the good, and of an implied policy of the bad.

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
    floor: least odds of the implied policy that its logarithm takes
  """
  return _nft('nft', ppo.log_ratio(x), x, negative, floor, weigh)


@registry.register(
  'loss', needs=(*NEEDS, 'target:rate'), takes='any', couples=True
)
def nft_sequence(
  x: LossInputs,
  *,
  negative: NotNegative = 1.0,
  floor: Positive = 1.0,
  weigh: Annotated[str, OneOf(*WEIGHTS)] = 'rest',
) -> Loss:
  """Computes nft whose ρ is the product over the trajectory's tokens.

  All of them have the trajectory's value: the reducer 'trajectory_mean' counts
  it once, as the released code does.

  Args:
    negative: n, weight of the bad; 0: rejection fine-tuning
    floor: least odds of the implied policy that its logarithm takes
    weigh: w(r), as in `nft`
  """
  index = segment.index(x.batch).unit('trajectory')
  used = ppo.weight_of(x) > 0
  log_rho = index.sum_within(ppo.log_ratio(x), used)
  return _nft('nft_sequence', log_rho, x, negative, floor, weigh)


def _nft(name, log_rho, x: LossInputs, negative, floor, weigh) -> Loss:
  OneOf(*WEIGHTS).check(f'{name}.weigh', weigh)
  log_rho, r = jnp.minimum(log_rho, 10), x.credit.target['rate']
  chex.assert_equal_shape([log_rho, r])
  weight, good = ppo.weight_of(x), x.credit.token > 0
  rest = (1 - r * jnp.exp(log_rho)) / (1 - r)
  held = rest + jax.lax.stop_gradient(jnp.maximum(rest, floor) - rest)
  value = jnp.where(good, -log_rho, -negative * jnp.log(held))
  metrics = {
    'good': ppo.metric(good, weight),
    'floor': ppo.metric(~good & (rest < floor), weight),
  }
  return WEIGHTS[weigh](r) * value, metrics


def positive_weight(x: LossInputs) -> Array:
  """Returns the weights of the sampled tokens of positive advantage."""
  return jnp.where(x.credit.token > 0, ppo.weight_of(x), 0)


@registry.register(
  'loss',
  needs=('output:logp', 'column:source', 'memory:replay'),
  takes='any',
  weight=positive_weight,
)
def imitate(
  x: LossInputs, *, clip_low: ppo.ClipLow = 0.2, clip_high: ppo.ClipHigh = 0.28
) -> Loss:
  """Runs ppo against the log-probs that were stored, where A > 0  (2509.22601)

  A replayed token's ratio is to the policy that wrote it, however long ago;
  what is not better than usual now has no weight. Say by c.select that the
  term looks at the source of replayed trajectories.
  """
  return _on_stored(x, positive_weight(x), clip_low, clip_high)


@registry.register(
  'loss',
  needs=('output:logp', 'column:source', 'memory:replay'),
  takes='any',
  couples=True,
  weight=positive_weight,
)
def imitate_clip_cov(
  x: LossInputs,
  *,
  clip_low: ppo.ClipLow = 0.2,
  clip_high: ppo.ClipHigh = 0.28,
  fraction: Share = 0.02,
  least: Annotated[float, Real(most='most')] = 1.0,
  most: Annotated[float, Real(infinite=True)] = 40.0,
) -> Loss:
  """Runs `imitate`, with 0 for a random few tokens of least < cov_t < most.

  cov_t is `covariance.covariance` over the tokens that weigh. What is imitated
  often becomes likely, and its covariance large, which is how entropy falls.

  Args:
    fraction: of the tokens that weigh; the chosen still count in the mean
    least: covariance above which tokens may be spared
    most: covariance below which they may be; inf: any
  """
  weight = positive_weight(x)
  value, metrics = _on_stored(x, weight, clip_low, clip_high)
  cov = covariance.covariance(x.credit.token, x.outputs.logp, weight)
  near = (weight > 0) & (cov > least) & (cov < most)
  noise = jax.random.uniform(x.key, cov.shape)
  count = covariance.share(fraction, weight)
  spared = segment.top_k_mask(noise, near, count)
  metrics |= {'spared': ppo.metric(spared, weight)}
  return jnp.where(spared, 0, value), metrics


@registry.register(
  'loss',
  needs=('output:logp', 'column:source', 'memory:replayed'),
  takes='any',
)
def ppo_stored(
  x: LossInputs, *, clip_low: ppo.ClipLow = 0.2, clip_high: ppo.ClipHigh = 0.2
) -> Loss:
  """Runs ppo against the log-probs that were stored, whatever the sign of A.

  For trajectories that a memory brings back: the ratio is to the policy that
  wrote them. Say by c.select that the term looks at their source, 1.
  """
  return _on_stored(x, ppo.weight_of(x), clip_low, clip_high)


def _on_stored(x: LossInputs, weight, clip_low, clip_high) -> Loss:
  chex.assert_equal_shape([x.outputs.logp, x.credit.token])
  log_rho = ops.log_ratio(x.outputs.logp, x.batch.rows.logp)
  return ppo.clipped(log_rho, x.credit.token, weight, clip_low, clip_high)
