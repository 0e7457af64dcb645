"""Losses over pairs: the half that was preferred and the one that was not.

  s = Σ w log π,  s_ref = Σ w log π_ref,  n = Σ w   over the tokens of a half
  r = s − s_ref                                     its log-ratio, nats

w are the weights of sampled tokens. A half is a trajectory, whose tokens may
stand in several rows, or a turn (types.Pairs). With per='mean' s, s_ref and r
are divided by n. A pair with a half that has no tokens does not count.

A loss of pairs ℓ_p becomes values of tokens: each half hands ½ w_p ℓ_p to its
tokens in equal parts, so that 'token_mean' gives Σ_p w_p ℓ_p / Σ_p w_p, the
mean over pairs. Rows couple through it, and it is differentiated once over all
of them: micro-batches and shards only add.
"""

from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp

from agentrl import registry, segment
from agentrl.domain import NotNegative, OneOf, Positive, Real
from agentrl.loss import ppo
from agentrl.types import Array, Loss, LossInputs, Pairs

REFERENCES = ('ref_logp', 'old_logp')
Reference = Annotated[
  str,
  OneOf(*REFERENCES),
  "log π_ref: 'ref_logp' (signal reference) or 'old_logp' (the policy when the"
  ' iteration began)',
]
Beta = Annotated[Positive, 'reward per nat of log-ratio']
Per = Annotated[
  str,
  OneOf('sum', 'mean'),
  "a half has the 'sum' over its tokens or the 'mean'",
]


class Halves(NamedTuple):
  """Pairs of a batch that count, and the number of tokens of their halves."""

  pairs: Pairs
  weight: Array  # [P] f32  0 where a half has no tokens
  tokens: Array  # [P, 2] f32  Σ w of the half; the winner first


def fits(spec: registry.MethodSpec, config: Any) -> str:
  """Returns '' if both halves of a pair meet in one update, whole."""
  losses = [n for n in spec.loss if 'pairs' in registry.get('loss', n).needs]
  plan = registry.settings(
    registry.get('minibatch', spec.minibatch),
    spec.values('minibatch', spec.minibatch),
  )
  if plan.get('n', 1) > 1 and plan.get('unit') != 'group':
    return (
      f"hp.minibatch.{spec.minibatch}.unit must be 'group' for loss"
      f' {losses[0]!r}, whose pairs are of one group and are not split, got'
      f' {plan.get("unit", "parts of trajectories")!r}; or set'
      f' hp.minibatch.{spec.minibatch}.n to 1'
    )
  for name in losses:
    if name in config.select:
      return (
        f'select.{name} must be empty, got {dict(config.select[name])}: the'
        ' tokens of a pair are chosen by their weight; use a link that lowers'
        " it, such as 'without_span'"
      )
  return ''


def halves(x: LossInputs) -> Halves:
  """Returns the pairs of the batch that have tokens in both halves."""
  pairs = segment.pairs_of(x.batch)
  count = _half_sums(ppo.weight_of(x), x, jnp.ones_like(ppo.weight_of(x)))
  both = jnp.all(count > 0, axis=1)
  return Halves(pairs, jnp.where(both, pairs.weight, 0), count)


def pair_weight(x: LossInputs) -> Array:
  """Spreads each half's weight evenly over its tokens: [N, T].

  w_t Σ_{halves h of t} w_h / (2 n_h);   in all they are Σ_p w_p
  """
  return ppo.weight_of(x) * _on_tokens(jnp.ones((1, 2)), x, halves(x))


def _half_sums(weight: Array, x: LossInputs, y: Array) -> Array:
  """Sums w y over the tokens of each half: [P, 2]."""
  own = segment.index(x.batch).to_turns(jnp.where(weight != 0, weight * y, 0))
  return segment.at_halves(
    segment.share_turns(own, x.batch), segment.pairs_of(x.batch)
  )


def _on_tokens(loss: Array, x: LossInputs, h: Halves) -> Array:
  """Returns Σ_{halves h of t} ℓ_h w_h / (2 n_h) at every token: [N, T].

  Args:
    loss: ℓ [P, 2] or [1, 2]
  """
  part = h.weight[:, None] / (2 * jnp.where(h.tokens > 0, h.tokens, 1))
  b, k = x.batch.turns.valid.shape
  turns = segment.from_halves(loss * part, h.pairs, (b, k))
  return segment.index(x.batch).to_tokens(segment.share_turns(turns, x.batch))


def _value(loss: Array, x: LossInputs, h: Halves) -> Array:
  """Returns [N, T] values of halves' losses ℓ [P, 2], see the module's head."""
  all_of = _on_tokens(jnp.ones((1, 2)), x, h)
  own = _on_tokens(loss, x, h)
  return jnp.where(all_of > 0, own / jnp.where(all_of > 0, all_of, 1), 0)


def _logp(x: LossInputs, h: Halves, per: str, name: str = '') -> Array:
  """Returns s, or s − s_ref of a reference by name, of halves: [P, 2], nats."""
  OneOf('sum', 'mean').check('per', per)
  y = x.outputs.logp
  y = y - x.signals[name] if name else y
  total = _half_sums(ppo.weight_of(x), x, y)
  return (
    total / jnp.where(h.tokens > 0, h.tokens, 1) if per == 'mean' else total
  )


def _of_margin(loss: Array, margin: Array, x: LossInputs, h: Halves) -> Loss:
  """Returns value and metrics of a loss ℓ [P] of a margin [P]."""
  value = _value(jnp.stack([loss, loss], axis=1), x, h)
  right = (margin > 0) + 0.5 * (margin == 0)
  metrics = {
    'accuracy': ppo.metric(right, h.weight),
    'margin': ppo.metric(margin, h.weight),
    'pairs': (jnp.sum(h.weight), jnp.ones(())),
  }
  return value, metrics


def _register(*needs: str):
  return registry.register(
    'loss',
    needs=('output:logp', 'pairs', *needs),
    takes='any',
    couples=True,
    weight=pair_weight,
    check=fits,
  )


@_register('signal:{reference}')
def dpo(
  x: LossInputs,
  *,
  beta: Beta = 0.1,
  smoothing: Annotated[float, Real(0, 0.5)] = 0.0,
  per: Per = 'sum',
  reference: Reference = 'ref_logp',
) -> Loss:
  """−(1 − ε) log σ(d) − ε log σ(−d),  d = β (r_win − r_lose)  (2305.18290)

  With ε > 0 it is cDPO, for labels of which a share ε is wrong; with
  per='mean' the length-normalised DPO (Tülu 3, 2411.15124). Transitions of the
  environment stand in both log-ratios and cancel.

  Metrics: accuracy (pairs of d > 0), margin d and the number of pairs.

  Args:
    smoothing: ε, probability that a label is wrong
  """
  h = halves(x)
  ratio = beta * _logp(x, h, per, reference)
  d = ratio[:, 0] - ratio[:, 1]
  right, wrong = jax.nn.log_sigmoid(d), jax.nn.log_sigmoid(-d)
  return _of_margin(-(1 - smoothing) * right - smoothing * wrong, d, x, h)


@_register('signal:{reference}')
def ipo(
  x: LossInputs,
  *,
  beta: Beta = 0.1,
  per: Per = 'sum',
  reference: Reference = 'ref_logp',
) -> Loss:
  """(r_win − r_lose − 1 / (2 β))²   (IPO, arXiv 2310.12036)

  β is the paper's τ: the log-ratios are drawn apart so far and no farther. With
  per='mean' it is the loss as TRL has it.
  """
  h = halves(x)
  ratio = _logp(x, h, per, reference)
  d = ratio[:, 0] - ratio[:, 1]
  return _of_margin(jnp.square(d - 1 / (2 * beta)), d, x, h)


@_register()
def orpo(x: LossInputs, *, odds: NotNegative = 0.1) -> Loss:
  """−m_win − λ log σ(o_win − o_lose)   (ORPO, arXiv 2403.07691)

    m = s / n,   o = log(p / (1 − p)) = m − log(1 − exp m),   p = exp m

  Likelihood of what was preferred, and its odds against the other. There is
  no reference.

  Args:
    odds: λ, weight of the odds ratio beside the likelihood
  """
  h = halves(x)
  m = jnp.minimum(_logp(x, h, 'mean'), -1e-6)  # p < 1
  o = m - jnp.log(-jnp.expm1(m))
  d = o[:, 0] - o[:, 1]
  return _of_margin(-m[:, 0] - odds * jax.nn.log_sigmoid(d), d, x, h)


@_register()
def simpo(
  x: LossInputs, *, beta: Beta = 2.0, target: NotNegative = 1.0
) -> Loss:
  """−log σ(β (m_win − m_lose) − γ),  m = s / n   (SimPO, arXiv 2405.14734)

  Args:
    target: γ, margin by which the winner is to be likelier
  """
  h = halves(x)
  m = beta * _logp(x, h, 'mean')
  d = m[:, 0] - m[:, 1]
  return _of_margin(-jax.nn.log_sigmoid(d - target), d, x, h)


@_register()
def winner_nll(x: LossInputs) -> Loss:
  """−m_win,  m = s / n, nats per token of what was preferred.

  Beside `dpo` it keeps winners likely, which DPO alone allows to fall as long
  as losers fall more (2404.19733); its coefficient weighs it.
  """
  h = halves(x)
  nll = -_logp(x, h, 'mean')[:, 0]
  metrics = {'nll': ppo.metric(nll, h.weight)}
  return _value(jnp.stack([nll, nll], axis=1), x, h), metrics


@_register('signal:{reference}')
def kto(
  x: LossInputs,
  *,
  beta: Beta = 0.1,
  win: NotNegative = 1.0,
  lose: NotNegative = 1.0,
  reference: Reference = 'ref_logp',
) -> Loss:
  """Values each half against a reference point, not against the other.

    winner: λ_W (1 − σ(β (r − z))),   loser: λ_L (1 − σ(β (z − r)))

  z = max(0, mean r over the halves of all pairs), not differentiated (KTO,
  arXiv 2402.01306, where z is the mean over answers to other prompts; either
  estimates KL(π ‖ π_ref)). ℓ of a pair is the mean of its halves.

  Args:
    win: λ_W, weight of what was preferred
    lose: λ_L, weight of what was not
  """
  h = halves(x)
  ratio = _logp(x, h, 'sum', reference)
  mean = jnp.sum(h.weight[:, None] * ratio)
  mean /= jnp.maximum(2 * jnp.sum(h.weight), 1e-9)
  z = jax.lax.stop_gradient(jnp.maximum(mean, 0))
  good = win * jax.nn.sigmoid(-beta * (ratio[:, 0] - z))
  bad = lose * jax.nn.sigmoid(-beta * (z - ratio[:, 1]))
  value = _value(jnp.stack([good, bad], axis=1), x, h)
  _, metrics = _of_margin(good, beta * (ratio[:, 0] - ratio[:, 1]), x, h)
  metrics['reference_point'] = z, jnp.ones(())
  return value, metrics
