"""Masking links: choose the tokens that the policy learns from.

They lower `credit.weight`; a reducer then divides by what was kept. Targets
of value heads are not touched: a critic learns from every turn.
"""

from typing import Annotated

import jax.numpy as jnp

from agentrl import ops, registry, segment
from agentrl.advantage import chain, group_stats
from agentrl.domain import Columns, Number, OneOf, Positive
from agentrl.types import Array, Credit, Linked, LinkInputs, Span


def _keep(credit: Credit, mask: Array) -> Linked:
  """Zeroes credit weights off the mask [N, T]; measures the share it keeps."""
  weight = jnp.where(mask, credit.weight, 0)
  metrics = {'kept': (jnp.sum(weight), jnp.sum(credit.weight))}
  return credit.replace(weight=weight), metrics


@registry.register('link', takes='any')
def positive_only(x: LinkInputs) -> Linked:
  """w_t = w_t · 1[A_t > 0], A the whole advantage (Odysseus, 2605.00347).

  Whiten before: what is kept is what beats the batch's mean.
  """
  return _keep(x.credit, chain.token_advantage(x.credit, x.batch.rows) > 0)


@registry.register('link', needs=('*by',))
def imitate_best(
  x: LinkInputs, *, by: Columns = ('group', 'state'), threshold: Number = 0.1
) -> Linked:
  """A_k = 1 at the best turns of a cell if x > threshold, else weight 0.

  The best-of-N extraction of Digi-Q (2502.15760): with `reinforce` the loss
  is −log π of the best action tried in a state. Equal turns are all best; a
  turn that is alone in its cell is its best.

  Args:
    threshold: least value of a turn that is imitated, exclusive
  """
  mask = group_stats.counted(x.batch, 'turn')
  value, cell = x.credit.turn, group_stats.cells(x.batch, by).reshape(-1)
  top = segment.segment_max(value.reshape(-1), cell, mask.reshape(-1))
  size = chain.size(x.credit).reshape(-1)
  size = segment.segment_max(size, cell, mask.reshape(-1))
  least = (top - ops.rounding(size)).reshape(value.shape)
  best = mask & (value >= least) & (value > threshold)
  tokens = segment.index(x.batch).to_tokens(best)
  credit, metrics = _keep(x.credit, tokens)
  return credit.replace(turn=best.astype(value.dtype)), metrics


@registry.register('link', takes='any')
def first_turns(x: LinkInputs, *, turns: Positive = 3.0) -> Linked:
  """x = 0 from turn ⌊turns⌋ on: 0 in this stream, not less weight in others.

  TT-OPD (arXiv 2605.02943). A schedule of `turns` makes a curriculum.

  Args:
    turns: how many keep their advantage
  """
  here = jnp.arange(x.credit.turn.shape[1])[None] + 1 <= turns
  here = jnp.broadcast_to(here, x.credit.turn.shape)
  tokens = segment.index(x.batch).to_tokens(here)
  weight = jnp.where(x.batch.rows.sampled, x.credit.weight, 0)
  share = jnp.sum(jnp.where(tokens, weight, 0)), jnp.sum(weight)
  credit = x.credit.replace(
    turn=jnp.where(here, x.credit.turn, 0),
    token=jnp.where(tokens, x.credit.token, 0),
  )
  return credit, {'taught': share}


SPANS = tuple(x.name.lower() for x in Span)


@registry.register('link', needs=('span:{span}',), takes='any')
def without_span(
  x: LinkInputs, *, span: Annotated[str, OneOf(*SPANS)] = 'thought'
) -> Linked:
  """w_t = 0 on the tokens of a span, in every loss.

  Losses over pairs then compare what is outside of it: log-probs of answers,
  each after its own thought (masked thinking, arXiv 2410.12375).

  Args:
    span: part of a message that is not learned from
  """
  inside = segment.in_span(x.batch.rows.span, Span[span.upper()])
  return _keep(x.credit, ~inside)
