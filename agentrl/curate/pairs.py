"""Pairs: preferences between trajectories of a group, or turns of a state.

(batch, *, hp) -> batch with `pairs`. What does not count (`counting`) stands in
none of them. Ties, and what differs by no more than rounding, are pairs of
weight 0, as padding is. Pairs never leave their group, so that a minibatch of
whole groups holds both halves, and of several agents each is compared with
itself alone: below, members of a group are those of one agent. Nothing is
dropped: other losses see the batch as it was.
"""

from typing import Annotated, Any

import jax
import jax.numpy as jnp

from agentrl import mesh, ops, registry, segment
from agentrl.advantage import group_stats, returns, search_values
from agentrl.curate import select
from agentrl.domain import (
  Count,
  Discount,
  Name,
  NotNegative,
  OneOf,
  Share,
  Tuple,
)
from agentrl.ops import counting
from agentrl.types import Array, Batch, Pairs

SCORES = ('return', 'outcome')
Score = Annotated[
  str, OneOf(*SCORES), "what is compared: the 'return' or the task's 'outcome'"
]
Margin = Annotated[
  NotNegative, 'pairs whose scores differ by more than that count'
]


def fits(spec: registry.MethodSpec, config: Any) -> str:
  """Returns '' if no memory puts other trajectories beside those compared."""
  del config
  for name in spec.memory:
    if 'memory:replayed' in registry.get('memory', name).gives:
      return (
        f'c.memory must not bring trajectories back where c.curate makes pairs'
        f' of those just sampled, got {name!r}; leave it out'
      )
  return ''


_register = registry.register(
  'curate', needs=('column:group',), gives=('pairs',), check=fits
)


@_register
def opposite_ranks(
  batch: Batch,
  *,
  most: Count = 1,
  score: Score = 'return',
  margin: Margin = 0.0,
) -> Batch:
  """Pairs the r-th best of each group with its r-th worst, r < most.

  With most=1 the best with the worst; with G / 2 or more the upper half of a
  group with its lower half.

  Args:
    most: pairs of a group; never more than half of it
  """
  value, size = _score(batch, score)
  peers, live = select.peer_ids(batch), counting.trajectories(batch)
  place = select.rank(-value, peers, live)
  count = segment.segment_sum(live.astype(jnp.int32), peers)
  mates = _mates(peers, live)
  other = mates & (place[None] == (count - 1 - place)[:, None])
  lose = jnp.argmax(other, axis=1)
  chosen = live & (place < jnp.minimum(most, count // 2))
  clear = _clear(value, size, value[lose], size[lose], margin)
  return _with(batch, jnp.arange(len(value)), lose, chosen & clear)


@_register
def every_pair(
  batch: Batch,
  *,
  most: Count = 8,
  score: Score = 'return',
  margin: Margin = 0.0,
) -> Batch:
  """Pairs every trajectory with the members of its group that did worse.

  Args:
    most: of them, the worst first; G − 1 or more: all
  """
  value, size = _score(batch, score)
  peers, live = select.peer_ids(batch), counting.trajectories(batch)
  mates = _mates(peers, live)
  clear = _clear(value[:, None], size[:, None], value[None], size[None], margin)
  gap = jnp.where(mates & clear, value[:, None] - value[None], -jnp.inf)
  return _largest(batch, gap, most)


def _largest(batch: Batch, gap: Array, most: int) -> Batch:
  """Pairs each trajectory across its largest gaps [B, B], −inf: none."""
  most = min(most, len(gap))
  gap, lose = jax.lax.top_k(gap, most)  # [B, most]
  win = jnp.repeat(jnp.arange(len(gap)), most)
  return _with(batch, win, lose.reshape(-1), jnp.isfinite(gap.reshape(-1)))


def _ranks(spec: registry.MethodSpec, config: Any) -> str:
  """Returns '' if what there should be fewer of is among the factors."""
  for _, hp in registry.settings_of(spec, 'curate', 'ranked_factors'):
    if strange := [x for x in hp['fewer'] if x not in hp['factors']]:
      return (
        'hp.curate.ranked_factors.fewer must name some of'
        f' factors={tuple(hp["factors"])}, got {strange[0]!r}'
      )
  return fits(spec, config)


@registry.register(
  'curate',
  needs=('column:group', 'term:*factors'),
  gives=('pairs',),
  check=_ranks,
)
def ranked_factors(
  batch: Batch,
  *,
  factors: Annotated[
    tuple[str, ...], Tuple(Name('a term'), least=1, once=True)
  ] = ('env',),
  fewer: Annotated[tuple[str, ...], Tuple(Name('a term'), once=True)] = (),
  margin: NotNegative = 1.0,
  first: NotNegative = 0.0,
  most: Count = 8,
) -> Batch:
  """Pairs members of a group by the first factor in which they clearly differ.

    f_m(τ) = ± Σ_k term_m,k,   δ_m = margin · std f_m,   δ_1 = first · std f_1

  i is preferred to j at the lowest m with |f_m(i) − f_m(j)| > δ_m, if f_m(i) is
  the larger one. std is over the trajectories of the batch that count. The
  comparison is the decision tree of HERON (arXiv 2309.02632, released code):
  no factor has a weight, and none has a unit. It may go in circles, since gaps
  that are not clear add up.

  Args:
    factors: terms of turns, the most important first
    fewer: those of them of which less is better
    margin: standard deviations by which all but the first factor must differ
    first: the same for the first factor
    most: members that one is paired with, those that it beats by a factor of
      higher rank first; G − 1 or more: all
  """
  peers, live = select.peer_ids(batch), counting.trajectories(batch)
  valid = batch.turns.valid
  mates, b = _mates(peers, live), live.shape[0]
  level = jnp.full((b, b), len(factors), jnp.int32)  # that decides
  wins = jnp.zeros((b, b), bool)
  n = jnp.maximum(jnp.sum(live), 1)
  for m, name in enumerate(factors):
    term = jnp.where(valid, batch.turns.terms[name], 0)
    f = jnp.sum(term, axis=1) * (-1 if name in fewer else 1)  # [B]
    size = jnp.sum(jnp.abs(term), axis=1)
    mean = jnp.sum(jnp.where(live, f, 0)) / n
    std = jnp.sqrt(jnp.sum(jnp.where(live, jnp.square(f - mean), 0)) / n)
    delta = std * (margin if m else first)
    slack = ops.rounding(jnp.maximum(size[:, None], size[None]))
    gap = f[:, None] - f[None]
    here = (level == len(factors)) & (jnp.abs(gap) > jnp.maximum(delta, slack))
    level = jnp.where(here, m, level)
    wins |= here & (gap > 0)
  rank = (len(factors) - level).astype(jnp.float32)  # of the factor
  return _largest(batch, jnp.where(mates & wins, rank, -jnp.inf), most)


def _listed(spec: registry.MethodSpec, config: Any) -> str:
  """Returns '' if the data tell which half of a pair is the better one."""
  if not config.sft.pairs:
    return (
      "sft.pairs must be True for curate 'as_listed', which takes the order of"
      " the data for a preference, got False; or choose 'opposite_ranks'"
    )
  return fits(spec, config)


@registry.register(
  'curate', needs=('column:group',), gives=('pairs', 'listed'), check=_listed
)
def as_listed(batch: Batch) -> Batch:
  """Pairs the first trajectory of each group with its second.

  For sft.pairs, whose data are winners and losers in turn, a group each: which
  is better was decided when they were listed, not by their outcomes.
  """
  peers, live = select.peer_ids(batch), counting.trajectories(batch)
  place = select.rank(jnp.zeros_like(batch.outcome), peers, live)
  second = _mates(peers, live) & (place[None] == 1)
  lose = jnp.argmax(second, axis=1)
  chosen = live & (place == 0) & jnp.any(second, axis=1)
  return _with(batch, jnp.arange(len(place)), lose, chosen)


@registry.register(
  'curate',
  needs=('column:group', 'column:state'),
  gives=('pairs',),
  check=fits,
)
def same_state(
  batch: Batch, *, gamma: Discount = 1.0, margin: Margin = 0.0
) -> Batch:
  """Pairs the best with the worst turn of each state that a group met.

  By Σ_{j ≥ k} γ^{j−k} r_j, what came from the turn on. Halves are turns: their
  messages answer the same observation.

  Args:
    gamma: discount per turn
  """
  turns, (b, k) = batch.turns, batch.turns.valid.shape
  reward = returns.reward(batch)
  value, size = (
    segment.accumulate_turns(x, gamma, turns.valid).reshape(-1)
    for x in (reward, jnp.abs(reward))
  )
  mask = counting.counted(batch, 'trajectory') & returns.sampled_turns(batch)
  mask = mask.reshape(-1)
  cell = group_stats.cells(batch, ('group', 'agent', 'state')).reshape(-1)
  place = segment.rank(-value, cell, mask)
  count = segment.segment_sum(mask.astype(jnp.int32), cell)
  flat = jnp.arange(b * k, dtype=jnp.int32)
  last = mask & (place == count - 1)
  lose = segment.segment_sum(jnp.where(last, flat, 0), cell)

  def compare(value, size, node, lose):
    clear = _clear(value, size, value[lose], size[lose], margin)
    return clear & (node != node[lose])

  clear = mesh.auto(compare, None)(value, size, turns.node.reshape(-1), lose)
  pairs = Pairs(
    win=jnp.stack([flat // k, flat % k], axis=1),
    lose=jnp.stack([lose // k, lose % k], axis=1),
    weight=(mask & (place == 0) & clear).astype(value.dtype),
  )
  return batch.replace(pairs=pairs)


@registry.register(
  'curate',
  needs=('column:group', 'column:node', 'term:*critique'),
  gives=('pairs',),
  check=fits,
)
def node_pairs(
  batch: Batch,
  *,
  margin: Margin = 0.2,
  most: Count = 4,
  alpha: Share = 0.5,
  critique: search_values.Critique = (),
) -> Batch:
  """Pairs turns that go on from one node, by what they are worth.

  Every turn with the siblings whose Q̃ is lower by more than the margin; see
  advantage/search_values. A turn that branches share stands in its pairs once.
  Agent Q (arXiv 2408.07199), with the paper's margin.

  Args:
    most: siblings that a turn is paired with, the worst first
    alpha: weight of what came of a turn beside the critique
  """
  turns = search_values.turns_of(batch)
  value, size = returns.episode(batch)
  term = batch.turns.terms[critique[0]] if critique else None

  def compare(turns, value, size, term, agent):
    q = search_values.values(turns, value, term, alpha=alpha)  # [B, K]
    bound = search_values.means(turns, size)
    slack = ops.rounding(jnp.maximum(bound[:, None], bound[None]))  # [B, B, K]
    gap = q[:, None] - q[None]
    one = turns.first
    other = jnp.moveaxis(turns.sibling & ~turns.same, 0, -1)
    clear = other & one[:, None] & one[None]
    clear &= agent[:, None] == agent[None]
    clear &= gap > jnp.maximum(margin, slack)
    gap = jnp.where(clear, gap, -jnp.inf)
    n = min(most, len(value))
    gap, lose = jax.lax.top_k(jnp.moveaxis(gap, 1, -1), n)  # [B, K, most]
    win = jnp.broadcast_to(jnp.arange(len(value))[:, None, None], lose.shape)
    turn = jnp.broadcast_to(jnp.arange(lose.shape[1])[:, None], lose.shape)
    half = lambda traj: jnp.stack([traj, turn], axis=-1).reshape(-1, 2)  # noqa: E731
    weight = jnp.isfinite(gap).reshape(-1).astype(value.dtype)
    return half(win).astype(jnp.int32), half(lose).astype(jnp.int32), weight

  run = mesh.auto(compare, None, None, None)
  win, lose, weight = run(turns, value, size, term, batch.turns.agent)
  return batch.replace(pairs=Pairs(win=win, lose=lose, weight=weight))


def _score(batch: Batch, score: str) -> tuple[Array, Array]:
  """Returns what is compared, and Σ |summands| for `ops.rounding`: [B] each."""
  OneOf(*SCORES).check('curate: score', score)
  if score == 'outcome':
    return batch.outcome, jnp.abs(batch.outcome)
  return returns.episode(batch)


def _mates(peers: Array, live: Array) -> Array:
  """Marks pairs of live trajectories of equal ids: [B, B] bool."""
  return (peers[:, None] == peers[None]) & live[:, None] & live[None]


def _clear(value, size, other, other_size, margin) -> Array:
  """Tells whether a value exceeds another by more than margin and rounding."""
  slack = ops.rounding(jnp.maximum(size, other_size))
  return value - other > jnp.maximum(margin, slack)


def _with(batch: Batch, win: Array, lose: Array, chosen: Array) -> Batch:
  """Adds pairs of trajectories [P] to the batch; those chosen have weight 1."""

  def half(traj):
    traj = traj.astype(jnp.int32)
    return jnp.stack([traj, jnp.full_like(traj, -1)], axis=1)

  weight = chosen.astype(batch.rows.weight.dtype)
  pairs = Pairs(win=half(win), lose=half(lose), weight=weight)
  return batch.replace(pairs=pairs)
