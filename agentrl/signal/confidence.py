"""Confidence: how far the policy's distributions are from the uniform one."""

import math

import jax.numpy as jnp

from agentrl import registry, segment
from agentrl.advantage import group_stats
from agentrl.domain import Named
from agentrl.ops import counting
from agentrl.signal.base import Context, Signal, nothing
from agentrl.types import Array, Batch, Span


@registry.register(
  'signal',
  needs=('role:policy', 'signal:old_entropy', 'span:{span}'),
  gives=('signal:confidence',),
)
def confidence(context: Context, *, span: Named = 'thought') -> Signal:
  """s_k = mean over the span's tokens of KL(π ‖ U) = log V − H_t: [B, K], nats.

  A mean, so that a message gains nothing by its length; 0 where a message lacks
  the span. The self-certainty of a rationale in Shop-R1 (arXiv 2507.17842).

  Args (hyper-parameters):
    span: of types.Span, in small letters, such as 'thought'
  """

  def score(state, batch: Batch, signals):
    head = context.modules['policy'].head
    assert head is not None  # it is a language model
    words, config = head(state.params['policy'])
    most = math.log(words.shape[config.axis])  # log V
    s = of_span(signals['old_entropy'], most, batch, Span[span.upper()])
    n = (s > 0).astype(s.dtype)
    return {'confidence': s}, {'confidence': (jnp.sum(s), jnp.sum(n))}

  return Signal('score_then_update', score, nothing)


def of_span(entropy: Array, most: float, batch: Batch, span: Span) -> Array:
  """Averages most − H_t over the sampled tokens of a span: [B, K].

  Args:
    entropy: H [N, T], nats
    most: log V, H of the uniform distribution
  """
  rows, pool = batch.rows, group_stats.turn_pool(batch)
  here = rows.sampled & segment.in_span(rows.span, span)
  here &= pool.spread(counting.counted(batch, 'turn'))
  total = pool.add(jnp.where(here, most - entropy, 0))
  n = pool.add(here.astype(entropy.dtype))
  return total / jnp.maximum(n, 1)
