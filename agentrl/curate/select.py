"""Curation: selects the trajectories that are trained on.

(batch, *, hp) -> batch. What is dropped keeps its place, so that shapes stay:
its weight is 0, so nothing is learned from it, and its turns count as not
scored, so that it stands in no mean or deviation either. Statistics are then
those of what was kept. Where whole groups go, those of the others are as
before. What did not count to begin with (`counting`) is no member of its
group: it is neither kept nor ranked.
"""

import chex
import jax.numpy as jnp

from agentrl import domain, ops, registry, segment
from agentrl.advantage import returns
from agentrl.ops import counting
from agentrl.types import Array, Batch, Span


def keep(batch: Batch, mask: Array) -> Batch:
  """Drops the batch's trajectories outside of the mask [B] bool."""
  chex.assert_rank(mask, 1)
  rows, turns = batch.rows, batch.turns
  weight = mask.astype(rows.weight.dtype)
  weight = segment.index(batch).trajectories_to_tokens(weight)
  return batch.replace(
    rows=rows.replace(weight=rows.weight * weight),
    turns=turns.replace(scored=turns.scored & mask[:, None]),
  )


def group_ids(batch: Batch) -> Array:
  """Returns the group of each trajectory as an id in [0, B): [B] i32."""
  return segment.compact_ids(batch.ids['group'])


def peer_ids(batch: Batch) -> Array:
  """Returns equal ids for trajectories of one group and one agent: [B] i32.

  Who acts in the first turn is whose trajectory it is: seats of a match are
  trajectories of one group, and do other things.
  """
  return segment.compact_ids(batch.ids['group'], batch.turns.agent[:, 0])


def varied(x: Array, batch: Batch, size: Array | None = None) -> Array:
  """Marks trajectories that count, in groups that differ in x [B]: [B] bool.

  Args:
    size: Σ |summands| of x, for `ops.rounding`
  """
  group, live = group_ids(batch), counting.trajectories(batch)
  m = ops.group_moments(x, group, mask=live, size=size)
  return live & (m.var > 0)


def clearly_below(x: Array, size: Array, group: Array, live: Array) -> Array:
  """Counts live members of the group with less, rounding aside: [B] i32."""
  slack = ops.rounding(segment.segment_max(size, group, live))
  return segment.count_below(x, x - jnp.where(live, slack, 0), group, live)


def rank(score: Array, group: Array, live: Array) -> Array:
  """Ranks by score among the live members of the group: [B] i32.

  Of equal scores the earlier one comes first.
  """
  return order(score, jnp.zeros_like(score), group, live)


def order(score: Array, second: Array, group: Array, live: Array) -> Array:
  """Ranks by score, then by a second score, as `rank`: [B] i32."""
  chex.assert_equal_shape([score, second, group, live])
  index = jnp.arange(score.shape[0])
  lower = index[None] < index[:, None]
  for x in (second, score):
    lower = (x[None] < x[:, None]) | ((x[None] == x[:, None]) & lower)
  mates = (group[None] == group[:, None]) & live[None]
  return jnp.sum(mates & lower, axis=1)


@registry.register('curate')
def most_varied(batch: Batch, *, share: domain.Share = 0.25) -> Batch:
  """Keeps the share of groups whose returns deviate most (2504.20073).

  How many: round(share · groups), at least one. Constant groups go in any
  case. Of equal deviations the earlier group comes first.

  Args:
    share: of the groups that is kept
  """
  total, size = returns.episode(batch)
  group, live = group_ids(batch), counting.trajectories(batch)
  m = ops.group_moments(total, group, mask=live, size=size)
  first = rank(jnp.zeros_like(total), group, live) == 0  # stands for its group
  first &= live
  count = jnp.maximum(jnp.round(share * jnp.sum(first)), 1)
  one = jnp.zeros_like(group)
  # A deviation is known as well as the returns are, not better.
  less = clearly_below(-jnp.sqrt(m.var), m.slack, one, first)
  place = jnp.where(first, rank(less, one, first), 0)
  place = segment.segment_sum(place, group)
  return keep(batch, live & (m.var > 0) & (place < count))


@registry.register('curate', needs=('column:group',))
def contrastive(batch: Batch, *, share: domain.Share = 0.5) -> Batch:
  """Keeps the best and the worst of each group, by return, then by length.

  Members are ordered by return, of equal ones the shorter reasoning first. Of
  n = round(share · G) places the first ⌈n / 2⌉ in that order get one, good and
  short, and the last ⌊n / 2⌋, bad and long (DCPO, 2603.06065). Reasoning is
  what is neither in a call nor in an answer. Groups of one return go as a
  whole.

  Args:
    share: of a group that is kept, half from either end
  """
  total, size = returns.episode(batch)
  group, live = group_ids(batch), counting.trajectories(batch)
  better = clearly_below(-total, size, group, live)
  place = order(better, reasoning_tokens(batch), group, live)
  count = segment.segment_sum(live.astype(jnp.float32), group)
  n = jnp.round(share * count)
  good = jnp.ceil(n / 2)
  chosen = (place < good) | (place >= count - (n - good))
  return keep(batch, varied(total, batch, size) & chosen)


def reasoning_tokens(batch: Batch) -> Array:
  """Counts sampled tokens in neither a call nor an answer: [B] f32."""
  rows = batch.rows
  acts = segment.in_span(rows.span, Span.CALL)
  acts |= segment.in_span(rows.span, Span.ANSWER)
  thought = (rows.sampled & ~acts).astype(jnp.float32)
  return segment.index(batch).to_trajectories(thought)


@registry.register('curate', needs=('term:invalid',))
def correct_and_clean(batch: Batch, *, share: domain.Share = 0.5) -> Batch:
  """Keeps a share of each group, solutions by how clean they are.

  `correct_and_clean_calls` where there are no tools: the penalty is the share
  of turns whose message was not understood.

  Args:
    share: of a group that is kept
  """
  valid = batch.turns.valid
  wrong = jnp.sum(jnp.where(valid, batch.turns.terms['invalid'], 0), axis=1)
  return _on_correct(batch, wrong / jnp.maximum(jnp.sum(valid, 1), 1), share)


@registry.register(
  'curate', needs=('term:calls', 'term:faults', 'term:answers')
)
def correct_and_clean_calls(
  batch: Batch, *, share: domain.Share = 0.5
) -> Batch:
  """Keeps a share of each group, solutions by how clean they are (2508.20722).

  penalty = failed calls / calls  +  min((answers − 1) / turns, 1)

  The first part is 1/2 where nothing was called, the second 1 where no message
  holds an answer. Of n = round(share · G) places, failures get round(share ·
  failures), solutions the rest, either at least min(2, its number). Solutions
  with the least penalty stay. Attempts at a task are alike before they are
  made, so that the first failures are a random choice of them. Groups of one
  outcome go as a whole.

  Args:
    share: of a group that is kept
  """
  turns = batch.turns
  calls, faults, answers = (
    jnp.sum(jnp.where(turns.valid, turns.terms[name], 0), axis=1)
    for name in ('calls', 'faults', 'answers')
  )
  count = jnp.maximum(jnp.sum(turns.valid, axis=1), 1)
  error = jnp.where(calls > 0, faults / jnp.maximum(calls, 1), 0.5)
  spare = jnp.minimum((answers - 1) / count, 1)
  return _on_correct(batch, error + jnp.where(answers > 0, spare, 1), share)


def _on_correct(batch: Batch, penalty: Array, share: float) -> Batch:
  """Selects failures in proportion, and solutions of least penalty [B]."""
  group, live = group_ids(batch), counting.trajectories(batch)
  won = live & (batch.outcome > 0.5)
  lost = live & ~won
  many = lambda mask: segment.segment_sum(mask.astype(jnp.float32), group)  # noqa: E731
  n = jnp.round(share * many(live))
  least = jnp.minimum(2, many(won))
  fails = jnp.maximum(jnp.round(share * many(lost)), jnp.minimum(2, many(lost)))
  fails = jnp.minimum(fails, jnp.maximum(n - least, 0))
  clean = won & (rank(penalty, group, won) < n - fails)
  some = lost & (rank(jnp.zeros_like(penalty), group, lost) < fails)
  mixed = varied(won.astype(jnp.float32), batch)
  return keep(batch, mixed & (clean | some))
