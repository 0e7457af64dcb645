"""Advantages of prefixes: first turns that the policy was given."""

import jax.numpy as jnp

from agentrl import registry, segment
from agentrl.advantage import chain, returns
from agentrl.domain import Share
from agentrl.types import Linked, LinkInputs, Span


@registry.register(
  'link',
  needs=('signal:old_entropy', 'weight:prefix'),
  takes='any',
  leaves='token',
)
def uncertain_prefix(x: LinkInputs, *, share: Share = 0.2) -> Linked:
  """Zeroes A_t of prefix tokens but where the policy is most uncertain.

  Kept are the ⌈share · n⌉ of largest entropy among the n prefix tokens that are
  trained on; sampled tokens are as before (Prefix-RFT, arXiv 2507.01679). A
  token without advantage still counts in the mean of a loss.

  Args:
    share: of prefix tokens that keep their advantage
  """
  rows = x.batch.rows
  prefix = (rows.span == Span.PREFIX) & (x.credit.weight > 0)
  n = jnp.sum(prefix)
  # A share of 0.2 of 5 is 1, whatever rounding makes of it.
  count = jnp.ceil(share * n - 1e-4).astype(jnp.int32)
  uncertain = segment.top_k_mask(x.signals['old_entropy'], prefix, count)
  a = chain.token_advantage(x.credit, rows)
  whole = n.astype(a.dtype)
  metrics = {'uncertain': (jnp.sum(uncertain).astype(a.dtype), whole)}
  return returns.as_tokens(
    x.credit, jnp.where(prefix & ~uncertain, 0, a)
  ), metrics
