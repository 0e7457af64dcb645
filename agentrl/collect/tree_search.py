"""Grow a tree of attempts for each group, in rounds, by UCT.

The first part of each group is sampled from the start. In every later round the
next attempts go down the group's tree: from a turn to the child of the highest
Q̃ + c √(ln N / (n + 1)), until they reach a turn with fewer children than
`width`, where they branch and are played to their end. What they earn is
backed up, as the mean over the trajectories that pass a turn. So it is Monte
Carlo tree search with as many simulations as a group has attempts; those of one
round spread out, since a visit under way counts with no value yet.

A repeated turn is given and not sampled. It stands in the batch once: later
copies have the same node and weight 0.
"""

from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import domain, mesh, registry, segment
from agentrl.advantage import returns, search_values
from agentrl.collect import branch
from agentrl.ops import counting
from agentrl.ops import tree_search as maths
from agentrl.types import Array, Batch, CollectInputs


def fits(spec: registry.MethodSpec, config: Any) -> str:
  """Returns '' if groups can be sampled in rounds, and nothing else begins."""
  piece = registry.get('collect', 'tree_search')
  rounds = registry.settings(piece, spec.values('collect', piece.name))[
    'rounds'
  ]
  size = config.rollout.group_size
  if size % rounds:
    return (
      'hp.collect.tree_search.rounds must divide rollout.group_size, got'
      f' {rounds} and {size}'
    )
  return branch.fits(spec, config)


@registry.register(
  'collect',
  needs=('term:entropy', 'term:*critique'),
  gives=('column:branch', 'given_turns'),
  check=fits,
)
def tree_search(
  x: CollectInputs,
  *,
  rounds: Annotated[int, domain.Whole(2)] = 4,
  explore: domain.NotNegative = 1.0,
  width: Annotated[int, domain.Whole(2)] = 2,
  alpha: domain.Share = 0.5,
  critique: search_values.Critique = (),
) -> Batch:
  """Samples attempts where a search of their group's tree goes.

  ids['branch'] [B] is 1 for those that repeat turns.

  Args:
    rounds: parts that the attempts of a group are sampled in; divides it
    explore: c, weight of turns that were visited little
    width: children that a turn gets before these are chosen among
    alpha: weight of what the search found beside a critique
    critique: term that places a turn among its siblings; (): no critique
  """
  b = x.attempts.task.shape[0]
  first, *parts = (np.arange(i, b, rounds) for i in range(rounds))
  made = x.sample(branch.take_attempts(x.attempts, first), x.key)
  k = made.turns.valid.shape[1]
  drawn = jnp.broadcast_to(jnp.arange(len(first))[:, None], (len(first), k))
  how = Rule(explore=explore, width=width, alpha=alpha)
  for part in parts:
    scored = x.score(made)
    term = scored.turns.terms[critique[0]] if critique else None
    later = branch.take_attempts(x.attempts, part)
    origin, turns = chosen(scored, term, later.group, how)
    made = branch.go_on(x, made, later, origin, turns, drawn[origin])
    own = len(drawn) + jnp.arange(len(origin))[:, None]
    repeated = jnp.arange(k)[None] < turns[:, None]
    drawn = jnp.concatenate([drawn, jnp.where(repeated, drawn[origin], own)])
  return x.score(made)


class Rule(NamedTuple):
  """How a search goes down a tree; see `tree_search`."""

  explore: float
  width: int
  alpha: float


def chosen(
  batch: Batch, critique: Array | None, member: Array, rule: Rule
) -> tuple[Array, Array]:
  """Chooses where attempts branch: origins and repeated turns, [M] i32.

  One after another in each group. An attempt of 0 turns begins anew.

  Args:
    batch: with rewards, what was sampled so far
    critique: [A, K] scores of turns; None: nobody criticises
    member: [M] i32, groups of the attempts
  """
  turns = search_values.turns_of(batch)
  value, _ = returns.episode(batch)

  def choose(turns, ids, counts, value, member, critique):
    mine = (member[:, None] == ids[None]) & counts[None]  # [M, A]
    number = jnp.arange(member.shape[0])
    place = segment.rank(number, member, jnp.ones_like(number, bool))

    def more(state):
      return state[0] <= jnp.max(place)

    def step(state):
      i, under_way, fresh, origin, at = state
      now = place == i
      q = search_values.values(
        turns, value, critique, alpha=rule.alpha, more=under_way
      )
      found = _descended(turns, mine & now[:, None], q, under_way, fresh, rule)
      return (
        i + 1,
        under_way + found.passed,
        fresh + found.branched,
        jnp.where(now, found.origin, origin),
        jnp.where(now, found.turns, at),
      )

    none = jnp.zeros(turns.mask.shape, value.dtype)
    zero = jnp.zeros(member.shape[0], jnp.int32)
    state = jnp.int32(0), none, none, zero, zero
    return jax.lax.while_loop(more, step, state)[-2:]

  counts = counting.trajectories(batch)
  args = turns, batch.ids['group'], counts, value, member, critique
  return mesh.auto(choose, None, None)(*args)


class _Found(NamedTuple):
  """Where the next attempt of every group branches."""

  origin: Array  # [M] i32
  turns: Array  # [M] i32
  passed: Array  # [A, K]  how many of them pass a turn
  branched: Array  # [A, K]  how many are new children beside a turn


def _descended(
  turns: search_values.Turns, mine: Array, q: Array, more, fresh, rule: Rule
) -> _Found:
  """Descends from the roots of groups, one attempt each, see `tree_search`.

  Args:
    mine: [M, A] bool, trajectories of an attempt's group; none: it waits
  """
  n, k = mine.shape[0], turns.mask.shape[1]
  first = turns.first
  goes_on = jnp.pad(turns.mask[:, 1:], ((0, 0), (0, 1)))  # [A, K]
  visits = jnp.sum(turns.same, axis=2).T + more  # [A, K]

  def largest(on, x):
    return jnp.max(jnp.where(on, x[None], 0), axis=1)

  def down(state, depth):
    on, going, origin, at = state  # on: trajectories that pass the node
    has = on & turns.mask[:, depth][None]  # [M, A]
    child = has & first[:, depth][None]
    under_way = largest(has, fresh[:, depth])
    count = jnp.sum(child, axis=1) + under_way
    deeper = jnp.any(turns.same[depth] & goes_on[:, depth][None], axis=1)
    total = jnp.sum(jnp.where(child, visits[:, depth][None], 0), axis=1)
    score = maths.uct(
      q[:, depth][None],
      visits[:, depth][None],
      (total + under_way)[:, None],
      c=rule.explore,
      extra=1,
      xp=jnp,
    )
    score = jnp.where(child & deeper[None], score, -jnp.inf)
    best = jnp.argmax(score, axis=1)
    dead = jnp.max(score, axis=1) == -jnp.inf
    stops = going & ((count < rule.width) | dead)
    goes = going & ~stops
    origin = jnp.where(stops, jnp.argmax(on, axis=1), origin)
    at = jnp.where(stops, depth, at)
    through = turns.same[depth][best] & goes[:, None]  # [M, A]
    passed = jnp.sum(through, axis=0).astype(q.dtype)
    beside = jnp.sum(has & stops[:, None], axis=0).astype(q.dtype)
    on = jnp.where(goes[:, None], has & through, on)
    return (on, goes, origin, at), (passed, beside)

  zero = jnp.zeros(n, jnp.int32)
  state = mine, jnp.ones(n, bool), zero, zero
  (_, _, origin, at), (passed, beside) = jax.lax.scan(
    down, state, jnp.arange(k, dtype=jnp.int32)
  )
  return _Found(origin.astype(jnp.int32), at, passed.T, beside.T)
