"""Allocate a batch's attempts to tasks and turns that promise mixed outcomes.

One attempt in `every` is sampled first. An *anchor* is where others may begin:
a task of theirs, or what precedes a later turn of a trajectory of theirs. A
logistic regression on the leaves seen so far predicts each anchor's chance p of
success, and the attempts that are left go one by one to the anchor where one
more leaf raises P(mixed) = 1 − p^n − (1 − p)^n the most. So groups are of
unequal sizes, and a task that is always or never solved costs little.
"""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import domain, mesh, registry, segment
from agentrl.collect import branch
from agentrl.curate import select
from agentrl.ops import counting, logistic
from agentrl.types import Array, Batch, CollectInputs, Metrics

SOLVED = 0.5  # outcomes above this are successes


class Anchors(NamedTuple):
  """Where attempts may begin; [A, K], turn k after k turns of trajectory a.

  k = 0 is the beginning of the task, which the first trajectory of a group
  offers for all.
  """

  chance: Array  # f32  of success
  leaves: Array  # i32  that pass it
  offered: Array  # bool


def measure(batch: Batch) -> Metrics:
  """Measures how many groups teach nothing, and how many leaves branch."""
  live, group = counting.trajectories(batch), select.group_ids(batch)
  equal = ~select.varied(batch.outcome, batch)
  first = segment.rank(jnp.arange(live.size), group, live) == 0
  return {
    'equal_groups': (jnp.sum(first & equal), jnp.sum(first)),
    'branched': (jnp.sum(live & (batch.ids['branch'] > 0)), jnp.sum(live)),
  }


@registry.register(
  'collect',
  needs=('term:entropy', 'term:tokens', 'column:group'),
  gives=('column:branch', 'given_turns'),
  check=branch.fits,
  metrics=measure,
)
def branch_mixed(
  x: CollectInputs,
  *,
  every: Annotated[int, domain.Whole(2)] = 4,
  most: domain.Count = 8,
  ridge: domain.Positive = 1.0,
) -> Batch:
  """Samples a quarter, then what may turn groups and branches mixed.

  After TRACE (2606.11119). ids['branch'] [B] is 1 for branched trajectories;
  those sampled first stand first in the batch. Attempts at a task are equal in
  number only by chance.

  Args:
    every: one attempt in `every` is sampled first, the same for each task
    most: leaves that are added to one anchor
    ridge: of `chances`
  """
  b = x.attempts.task.shape[0]
  first = np.arange(0, b, every)
  rest = b - len(first)
  if every < 2 or len(first) * most < rest:
    raise ValueError(
      'hp.collect.branch_mixed.every must be at least 2 and at most most + 1 ='
      f' {most + 1}, got {every}'
    )
  one = x.sample(branch.take_attempts(x.attempts, first), x.key)
  found = anchors(one, ridge)
  noise = jax.random.uniform(jax.random.fold_in(x.key, b), found.chance.shape)
  origin, turns = allocate(found, noise, count=rest, most=most)
  later = mesh.auto(
    lambda attempts, at: jax.tree.map(lambda leaf: leaf[at], attempts), None
  )(branch.take_attempts(x.attempts, first), origin)
  return x.score(branch.go_on(x, one, later, origin, turns))


def anchors(one: Batch, ridge: float) -> Anchors:
  """Returns where attempts may begin behind the trajectories of a batch."""
  valid = counting.counted(one, 'trajectory')
  live, group = counting.trajectories(one), select.group_ids(one)
  beginning = jnp.arange(valid.shape[1])[None] == 0
  place = jnp.arange(live.size)
  foremost = segment.rank(place, group, jnp.ones_like(live)) == 0
  chance = chances(
    (one.outcome > SOLVED).astype(one.outcome.dtype),
    live=live,
    group=group,
    state=one.turns.state,
    valid=valid,
    entropy=branch.entropies(one),
    ridge=ridge,
  )
  members = segment.segment_sum(live.astype(jnp.int32), group)
  return Anchors(
    chance=chance,
    leaves=jnp.where(beginning, members[:, None], 1),
    offered=jnp.where(beginning, foremost[:, None], valid),
  )


def chances(
  solved: Array,
  *,
  live: Array,
  group: Array,
  state: Array,
  valid: Array,
  entropy: Array,
  ridge: float,
) -> Array:
  """Predicts the success of what begins at each turn: [A, K], in (0, 1).

    logit p = logit m + w · φ,   φ = (1, logit c − logit m, k / K, H_k−1 − H_0)

  m is the mean of the group's outcomes and one half, c that of the outcomes of
  leaves that met the turn's state and m. w is fitted to the leaves by
  cross-entropy, each leaf's turns weighing 1 together, and to 0 by
  ridge |w|² / 2; there a leaf's own outcome is left out of its m and c. At
  k = 0 c = m and φ = (1, 0, 0, 0).

  Args:
    solved: [A], 0 or 1
    live: [A] bool, whose outcomes are known
    group: [A] i32
    state: [A, K] i32, equal where observations are
    valid: [A, K] bool, turns that live trajectories have
    entropy: [A, K] nats, of turns
  """

  def predict(solved, live, group, state, valid, entropy):
    a, k = valid.shape
    y, one = jnp.where(live, solved, 0), live.astype(solved.dtype)
    cell = segment.compact_ids(jnp.repeat(group, k), state.reshape(-1))
    traj = jnp.repeat(jnp.arange(a, dtype=jnp.int32), k)
    own = segment.compact_ids(traj, cell)
    used = valid & live[:, None]
    turn = jnp.tile(jnp.arange(k, dtype=jnp.int32), a)
    visit = segment.rank(turn, own, used.reshape(-1)) == 0  # once a leaf
    visit = (visit & used.reshape(-1)).astype(y.dtype)

    def met(x):  # [A] -> [A, K], over leaves that met the state of a turn
      total = segment.segment_sum(visit * jnp.repeat(x, k), cell)
      return total.reshape(a, k)

    members = [segment.segment_sum(x, group)[:, None] for x in (y, one)]
    meetings = [met(x) for x in (y, one)]
    later = jnp.arange(k)[None] > 0
    rise = jnp.roll(entropy, 1, axis=1) - entropy[:, :1]

    def features(left_out):  # [A, K], 1 where a leaf's own outcome is
      less = [left_out * x[:, None] for x in (y, one)]
      wins, n = (x - z for x, z in zip(members, less, strict=True))
      m = (wins + 0.5) / (n + 1)
      wins, n = (x - z for x, z in zip(meetings, less, strict=True))
      c = (wins + m) / (n + 1)
      offset = _logit(m)
      phi = (
        jnp.ones((a, k), y.dtype),
        jnp.where(later, _logit(c) - offset, 0),
        jnp.broadcast_to(jnp.arange(k)[None] / k, (a, k)).astype(y.dtype),
        jnp.where(later, rise, 0),
      )
      return jnp.stack(phi, axis=-1), offset

    phi, offset = features(used.astype(y.dtype))
    share = used / jnp.maximum(jnp.sum(used, axis=1, keepdims=True), 1)
    w = logistic.fit(
      phi.reshape(a * k, -1),
      jnp.repeat(y, k),
      weight=share.reshape(-1).astype(y.dtype),
      offset=offset.reshape(-1),
      ridge=ridge,
    )
    phi, offset = features(jnp.zeros_like(rise))
    return jax.nn.sigmoid(offset + phi @ w)

  args = solved, live, group, state, valid, entropy
  return mesh.auto(predict, None)(*args)


def allocate(
  where: Anchors, noise: Array, *, count: int, most: int
) -> tuple[Array, Array]:
  """Returns the trajectory and the turns that each attempt repeats: [M] i32.

  The M = count largest gains of one more leaf, which is the best allocation
  since gains fall with every leaf:

    P(mixed; n + 1) − P(mixed; n) = p^n (1 − p) + (1 − p)^n p

  Args:
    noise: [A, K] uniform on [0, 1); of equal anchors the larger comes first
    most: leaves that are added to one anchor
  """

  def choose(chance, leaves, offered, noise):
    k = chance.shape[1]
    more = jnp.arange(most)[None, None]
    n = jnp.maximum(leaves, 1)[..., None] + more  # [A, K, most]
    p = chance[..., None]
    gain = p**n * (1 - p) + (1 - p) ** n * p
    gain *= 1 + 1e-5 * noise[..., None]
    # Where no anchor is left tasks are, one leaf after the other.
    spare = -1.0 - more - noise[..., None]
    beginning = (jnp.arange(k) == 0)[None, :, None]
    gain = jnp.where(
      offered[..., None], gain, jnp.where(beginning, spare, -jnp.inf)
    )
    _, at = jax.lax.top_k(gain.reshape(-1), count)
    at //= most
    return (at // k).astype(jnp.int32), (at % k).astype(jnp.int32)

  chance, leaves, offered = where
  return mesh.auto(choose, None)(chance, leaves, offered, noise)


def _logit(p: Array) -> Array:
  return jnp.log(p) - jnp.log1p(-p)
