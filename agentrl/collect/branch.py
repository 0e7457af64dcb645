"""Sample part of each group, then branch from it where entropy rises.

One attempt in `every` is sampled first. The others replay the first turns of
such an attempt in their group, with the same messages in the same environment,
and continue from there; a member left without a turn to branch from begins
anew, as do those that a group's entropies ask for (`branch_above`).
Trajectories that do not count have no branches.
Replaying a prefix costs its prefill and the environment's steps; the batch
holds its tokens once.
"""

import functools
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import domain, registry, segment
from agentrl.collect import dynamic
from agentrl.ops import counting
from agentrl.prefix import lengths
from agentrl.types import Array, Attempts, Batch, CollectInputs, Copies, Prefix


def fits(spec: registry.MethodSpec, config) -> str:
  """Returns '' if nothing else gives attempts their first turns."""
  if not lengths.gives_turns(spec.prefix):
    return ''
  return (
    f"c.prefix must be 'none' for c.collect={spec.collect!r}, which repeats the"
    f' first turns of other attempts, got {spec.prefix!r}; or set c.collect to'
    " 'once'"
  )


_register = registry.register(
  'collect',
  needs=('term:entropy', 'term:tokens'),
  gives=('column:branch', 'given_turns'),
  check=fits,
)


@_register
def branch(
  x: CollectInputs,
  *,
  every: Annotated[int, domain.Whole(2)] = 2,
  chance: domain.Number = 0.5,
  slope: domain.Number = 0.2,
  penalty: domain.NotNegative = 0.0,
) -> Batch:
  """Samples members that share turns up to where one of them was uncertain.

  ids['branch'] [B] is 1 for branched trajectories; they follow the sampled
  ones in the batch.

  Args:
    every: one attempt in `every` is sampled from the start
    chance, slope, penalty: of `branches`; slope per nat
  """
  choose = functools.partial(
    branches, chance=chance, slope=slope, penalty=penalty
  )
  return _branched('branch', x, every, choose)


@_register
def branch_above(
  x: CollectInputs,
  *,
  every: Annotated[int, domain.Whole(2)] = 2,
  threshold: domain.Number = 0.5,
  slope: domain.Number = 0.2,
  penalty: domain.NotNegative = 0.05,
  balance: domain.Number = 0.5,
) -> Batch:
  """Branches above a threshold, and more where turns are uncertain.

  Of a group, as many begin anew as the entropies of those that are sampled
  first say (2510.14545).

  Args:
    threshold, slope, penalty: of `above`; slope per nat
    every: one attempt in `every` is sampled first
    balance: of `beginnings`, per nat
  """
  choose = functools.partial(
    above, threshold=threshold, slope=slope, penalty=penalty
  )
  return _branched('branch_above', x, every, choose, balance)


def _branched(
  name: str, x: CollectInputs, every: int, choose, balance: float | None = None
) -> Batch:
  """Samples one attempt in `every`; the rest continue from chosen turns.

  Args:
    name: of the component
    choose: (entropies, valid, noise), [A, K] each -> [A, K] bool
    balance: of `beginnings`; None: members branch wherever they can
  """
  if every < 2:
    raise ValueError(
      f'hp.collect.{name}.every must be at least 2, got {every}; or set'
      " c.collect to 'once'"
    )
  b = x.attempts.task.shape[0]
  first = np.arange(0, b, every)
  rest = np.setdiff1d(np.arange(b), first)
  one = x.sample(take_attempts(x.attempts, first), x.key)
  noise = jax.random.uniform(
    jax.random.fold_in(x.key, b), (2, *one.turns.node.shape)
  )
  h, valid = entropies(one), counting.counted(one, 'trajectory')
  chosen = choose(h, valid, noise[0])
  later, anew = take_attempts(x.attempts, rest), None
  if balance is not None:
    of, member = one.ids['group'], later.group
    anew = beginnings(h, valid, of, member, balance=balance)
  origin, turns = partners(
    chosen, noise[1], one.ids['group'], later.group, anew
  )
  return x.score(go_on(x, one, later, origin, turns))


def go_on(
  x: CollectInputs,
  one: Batch,
  later: Attempts,
  origin: Array,
  turns: Array,
  drawn: Array | None = None,
) -> Batch:
  """Samples attempts behind first turns of others, and joins both batches.

  Args:
    one: sampled before, A trajectories
    origin, turns: [M] i32, whose turns each attempt repeats, and how many
    drawn: [M, K] i32, see `Copies`
  """
  entropy, count = one.turns.terms['entropy'], one.outcome.shape[0]
  copies = Copies(one.rows, entropy, origin, count, drawn=drawn)
  prefix = Prefix(turns, copies)
  two = x.sample(later.replace(prefix=prefix), x.key)
  return joined(one, two, origin, turns)


def entropies(batch: Batch) -> Array:
  """Returns the mean token entropy of each turn, nats: [B, K]."""
  terms = batch.turns.terms
  return terms['entropy'] / jnp.maximum(terms['tokens'], 1)


def branches(
  h, valid, noise, *, chance: float, slope: float, penalty: float
) -> Array:
  """Selects turns to branch from: [B, K] bool, never a trajectory's first.

  u < (chance + slope (H_k − H_0)) (1 − penalty l)      (2507.19849)

  l: the number of consecutive chosen turns right before it.

  Args:
    h: [B, K] nats, mean entropy of the turn
    noise: [B, K] uniform on [0, 1)
  """
  p = chance + slope * (h - h[:, :1])
  return _in_turn(lambda left, p, u: u < p * left, valid, penalty, p, noise)


def above(
  h, valid, noise, *, threshold: float, slope: float, penalty: float
) -> Array:
  """Selects turns to branch from: [B, K] bool, never a trajectory's first.

  (u + slope (H_k − H_0)) (1 − penalty l) > threshold      (2510.14545)

  Without a penalty, threshold 1/2 is as likely as `branches` at chance 1/2.
  Args: as of `branches`
  """
  x = noise + slope * (h - h[:, :1])
  return _in_turn(lambda left, x: x * left > threshold, valid, penalty, x)


def _in_turn(rule, valid, penalty: float, *args) -> Array:
  """Applies rule(1 − penalty l, *args of the turn) in order: [B, K] bool."""

  def go(run, now):
    valid, *args = now
    chosen = valid & rule(jnp.maximum(1 - penalty * run, 0), *args)
    return jnp.where(chosen, run + 1, 0), chosen

  later = valid.at[:, 0].set(False)
  xs = [jnp.swapaxes(x, 0, 1) for x in (later, *args)]
  _, chosen = jax.lax.scan(go, jnp.zeros(valid.shape[0], jnp.int32), xs)
  return jnp.swapaxes(chosen, 0, 1)


def beginnings(h, valid, group, member, *, balance: float) -> Array:
  """Counts the members of each group that begin anew: [M] i32.

  m = ⌊n σ(balance (H_0 − H))⌋ + 1 of a group's n attempts, those that were
  sampled first among them. H_0 is the mean entropy of their first turns, H of
  all their turns: where a task is uncertain, more begin anew, and where its
  later turns are, more branch.

  Args:
    h: [A, K] nats
    valid: [A, K] bool
    group: [A] i32 of those that were sampled first
    member: [M] i32, groups of the others
  """
  same = member[:, None] == group[None]  # [M, A]

  def mean(x, counts):
    total = same @ jnp.sum(jnp.where(counts, x, 0.0), axis=1)
    return total / jnp.maximum(same @ jnp.sum(counts, axis=1), 1)

  gap = mean(h[:, :1], valid[:, :1]) - mean(h, valid)
  first = jnp.sum(same, axis=1)
  n = first + jnp.sum(member[:, None] == member[None], axis=1)
  m = jnp.floor(n * jax.nn.sigmoid(balance * gap)).astype(jnp.int32) + 1
  return jnp.maximum(m - first, 0)


def partners(
  chosen, noise, group, member, anew: Array | None = None
) -> tuple[Array, Array]:
  """Returns each member's origin and how many turns it repeats: [M] i32.

  The chosen turns of a group are dealt to its members in a random order; a
  member for which none is left repeats 0 turns.

  Args:
    chosen, noise: [A, K]
    group: [A] i32 of the sampled trajectories
    member: [M] i32, groups of the members
    anew: [M] i32, so many members of each group repeat 0 turns in any case
  """
  a, k = chosen.shape
  of = jnp.broadcast_to(group[:, None], (a, k)).reshape(-1)
  mine = segment.rank(noise.reshape(-1), of, chosen.reshape(-1))
  place = jnp.arange(member.shape[0])
  yours = segment.rank(place, member, jnp.ones_like(place, bool))
  if anew is not None:
    yours -= anew  # below 0 there is no turn
  match = (member[:, None] == of[None]) & (yours[:, None] == mine[None])
  match &= chosen.reshape(1, -1)
  at = jnp.argmax(match, axis=1).astype(jnp.int32)
  any_match = jnp.any(match, axis=1)
  return jnp.where(any_match, at // k, 0), jnp.where(any_match, at % k, 0)


def joined(one: Batch, two: Batch, origin, turns) -> Batch:
  """Joins two batches and copies repeated turns from their origin."""
  a, k = one.turns.valid.shape
  repeated = jnp.arange(k)[None] < turns[:, None]  # [b, K]
  rows = two.rows
  again = segment.index(two).to_tokens(repeated)
  rows = rows.replace(weight=jnp.where(again, 0, rows.weight))
  branched = (turns > 0).astype(jnp.int32)
  two = two.replace(rows=rows, ids={**two.ids, 'branch': branched})
  if 'branch' not in one.ids:  # all of it was sampled from the start
    one = one.replace(ids={**one.ids, 'branch': jnp.zeros(a, jnp.int32)})
  both = dynamic.one_after_another(one, two)
  own = both.turns.node
  node = jnp.where(repeated, one.turns.node[origin], own[a:])
  node = jnp.concatenate([own[:a], node])
  return both.replace(turns=both.turns.replace(node=node))


def take_attempts(attempts: Attempts, index) -> Attempts:
  """Takes the attempts of an index [b]."""
  return jax.tree.map(lambda x: jnp.asarray(x)[index], attempts)
