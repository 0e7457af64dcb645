"""Branch inside messages: at tokens that were uncertain and mattered.

An older policy samples one attempt in `every`. What the policy of now finds
uncertain there, and what updates since have made likelier to go on as it did,
is drawn again: other attempts repeat the turns before such a token and the
message up to it, and the policy of now continues.
"""

from typing import Annotated, Any

import jax.numpy as jnp
import numpy as np

from agentrl import domain, mesh, registry, segment
from agentrl.collect import branch
from agentrl.ops import counting
from agentrl.rollout import registered
from agentrl.types import Array, Batch, CollectInputs, Copies, Metrics, Prefix

FLAT = 1e-4  # a spread below is one of rounding


def fits(spec: registry.MethodSpec, config: Any) -> str:
  """Returns '' if there are two policies, and both play inside jit."""
  by, s = f'c.collect={spec.collect!r}', config.staleness
  if why := branch.fits(spec, config):
    return why
  if registered.kind_of(spec).on_host:
    return (
      f'rollout.kind must be one that plays inside jit for {by}, which begins'
      f' inside of messages, got {spec.rollout!r}'
    )
  if spec.judge:
    return (
      f'c.judge must be empty for {by}, whose two policies sample in one'
      f' program, got {spec.judge}'
    )
  if s.bound < 1 or s.depth > 0 or s.devices or s.jobs:
    return (
      'staleness.bound must be at least 1, and batches collected before their'
      f' updates, for {by}, which compares the policy of now with an older'
      f' one, got bound={s.bound}, depth={s.depth}, devices={s.devices} and'
      f' jobs={s.jobs}; set bound to 1, depth to 0 and leave the others out'
    )
  return ''


def measure(batch: Batch) -> Metrics:
  """Measures how many attempts branch, and how many of them in a message."""
  live = counting.trajectories(batch)
  branched = live & (batch.ids['branch'] > 0)
  inside = branched & (batch.ids['branch_token'] > 0)
  return {
    'branched': (jnp.sum(branched), jnp.sum(live)),
    'branched_inside': (jnp.sum(inside), jnp.sum(branched)),
  }


@registry.register(
  'collect',
  needs=('term:entropy', 'column:group'),
  gives=(
    'column:branch',
    'column:branch_from',
    'column:branch_turn',
    'column:branch_token',
    'given_turns',
    'newest_branches',
  ),
  check=fits,
  metrics=measure,
)
def branch_tokens(
  x: CollectInputs,
  *,
  every: Annotated[int, domain.Whole(2)] = 2,
  gamma: domain.Discount = 0.9,
  future_clip: domain.Width = 0.5,
) -> Batch:
  """Samples members that part at the tokens of a group's highest scores.

  After APPO (2606.12384). ids [B]: 'branch' is 1 for those that part from
  another, 'branch_from' is which (-1: none), and 'branch_turn' and
  'branch_token' say where: the first token of their own. A member for which
  no token is left begins anew.

  Args:
    every: one attempt in `every` is sampled first
    gamma, future_clip: of `segment.future_ratios`
  """
  assert x.newest is not None, 'collectors of newest_branches get one'
  b = x.attempts.task.shape[0]
  first = np.arange(0, b, every)
  rest = np.setdiff1d(np.arange(b), first)
  one = x.sample(branch.take_attempts(x.attempts, first), x.key)
  later = branch.take_attempts(x.attempts, rest)
  logp, entropy = x.newest.read(one.rows)
  rows, index = one.rows, segment.index(one)
  omega = segment.future_ratios(
    jnp.where(rows.sampled, logp - rows.logp, 0),
    one,
    gamma=gamma,
    clip=future_clip,
  )
  value = scores(entropy, omega, index, rows.sampled)
  counts = index.to_tokens(counting.counted(one, 'trajectory'))
  value = jnp.where(counts, value, -jnp.inf)
  part = partings(value, one, later.group)
  return x.score(go_on(x, one, later, *part))


def scores(
  entropy: Array, omega: Array, index: segment.TurnIndex, sampled: Array
) -> Array:
  """Returns BS_t = z(H_t) z(Ω_t) where both are above 0, else −inf: [N, T].

  z over the sampled tokens of the trajectory, 0 where all are equal.

  Args:
    entropy: [N, T] nats, of what the token is drawn from
    omega: [N, T], of `segment.future_ratios`
  """
  own = index.unit('trajectory')

  def z(x):
    away = jnp.where(sampled, x - own.mean_within(x, sampled), 0)
    std = jnp.sqrt(own.mean_within(jnp.square(away), sampled))
    return jnp.where(std > FLAT, away / jnp.where(std > FLAT, std, 1), 0)

  h, future = z(entropy), z(omega)
  return jnp.where(sampled & (h > 0) & (future > 0), h * future, -jnp.inf)


def partings(
  score: Array, one: Batch, member: Array
) -> tuple[Array, Array, Array, Array]:
  """Returns where each member parts: [M] i32 thrice, and whether: [M] bool.

  Its trajectory, turn and token of the message, all 0 where it does not. The
  tokens of a group with the highest scores are dealt to its members.

  Args:
    score: [N, T]; −inf: no member parts there
    one: A trajectories that were sampled
    member: [M] i32, groups of the members
  """
  m = member.shape[0]

  def f(score, traj, turn, place, group, member):
    # A group is called by the first of its trajectories.
    lead = jnp.argmax(group[:, None] == group[None], axis=1)  # [A]
    same = member[:, None] == group[None]  # [M, A]
    there, mine = jnp.any(same, axis=1), jnp.argmax(same, axis=1)
    of = lead[jnp.maximum(traj, 0)]
    some = jnp.isfinite(score)
    rank = segment.rank(-score, of, some)
    slot = jnp.where(some & (rank < m), of * m + rank, group.size * m)
    table = jnp.full(group.size * m + 1, -1, jnp.int32)
    table = table.at[slot].set(jnp.arange(score.size, dtype=jnp.int32))
    yours = segment.rank(jnp.arange(m), member, jnp.ones(m, bool))
    at = jnp.where(there, table[mine * m + yours], -1)
    where = [jnp.where(at >= 0, y[at], 0) for y in (traj, turn, place)]
    return where, at >= 0

  rows = one.rows
  place = segment.place_in_message(rows, segment.index(one))
  flat = [y.reshape(-1) for y in (score, rows.traj, rows.turn, place)]
  where, found = mesh.auto(f, None)(*flat, one.ids['group'], member)
  return *where, found


def go_on(x: CollectInputs, one, later, origin, turns, tokens, found) -> Batch:
  """Samples attempts behind first tokens of others, and joins both batches.

  Args:
    one: sampled before, A trajectories
    origin, turns, tokens, found: of `partings`
  """
  assert x.newest is not None
  a, entropy = one.outcome.shape[0], one.turns.terms['entropy']
  copies = Copies(one.rows, entropy, origin, a, tokens=tokens)
  later = later.replace(prefix=Prefix(turns, copies))
  two = x.newest.sample(later, x.key)
  k = jnp.arange(two.turns.valid.shape[1])[None]
  index, rows = segment.index(two), two.rows
  begun = index.to_tokens(jnp.where(k == turns[:, None], tokens[:, None], 0))
  begun = rows.sampled & (segment.place_in_message(rows, index) < begun)
  own_entropy = two.turns.terms['entropy']
  whole = index.to_tokens(two.turns.valid & (k < turns[:, None]))
  version = jnp.where(begun | whole, jnp.max(one.rows.version), rows.version)
  rows = rows.replace(weight=jnp.where(begun, 0, rows.weight), version=version)
  # Uncertainty too is of when a message was sampled.
  repeated = two.turns.valid & (k < turns[:, None])
  terms = {'entropy': jnp.where(repeated, entropy[origin], own_entropy)}
  two = two.replace(
    rows=rows, turns=two.turns.replace(terms=two.turns.terms | terms)
  )
  both = branch.joined(one, two, origin, turns)

  def column(own, other: int):
    return jnp.concatenate([jnp.full(a, other, jnp.int32), own])

  ids = {
    'branch': column(found.astype(jnp.int32), 0),
    'branch_from': column(jnp.where(found, origin, -1), -1),
    'branch_turn': column(turns, 0),
    'branch_token': column(tokens, 0),
  }
  return both.replace(ids=both.ids | ids)
