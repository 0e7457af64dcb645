"""League: past selves of the policy, as rivals in games of two seats.

Self-play against the newest policy alone goes around in circles where
strategies beat each other in turn. Here a frozen role that plays one of the
seats (rollout.seats) is given the parameters of a past self, drawn anew after
every update, and the policy is paid for beating it.

  snapshot i:   parameters after an update, its rating, when it was taken
  after update t:   ratings follow the matches of the batch (ops/rating.py),
                    a snapshot is taken every so many updates,
                    the rival of step t + 1 is drawn by `rule`

A batch tells by the version of its tokens which rival it met, up to HISTORY − 1
updates later.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import jax
import jax.numpy as jnp
from flax import struct

from agentrl import domain, mesh, registry
from agentrl.memory.base import Memory
from agentrl.ops import rating
from agentrl.types import Array, Batch, Credit, Metrics, PyTree, Status

UNIFORM, LATEST, PFSP = 'uniform', 'latest', 'pfsp'
HISTORY = 16  # steps whose rivals are known: staleness is less
NEW = 1200.0  # the rating that a league begins with

Rule = Annotated[
  str,
  domain.OneOf(UNIFORM, LATEST, PFSP),
  'which past self is drawn: any, the newest, or the stronger the more often',
]


class League(struct.PyTreeNode):
  """At most N past selves."""

  params: PyTree  # of each, [N, ...]; None before it is opened
  rating: Array  # [N] f32  Elo
  own: Array  # [] f32  Elo of the policy
  games: Array  # [N] i32  matches that were rated
  written: Array  # [N] i32  step after which it was taken; -1: empty
  rival: Array  # [HISTORY] i32  the snapshot that played at step v, at v mod H
  score: Array  # [] f32  mean score of the policy in the last batch


def fits(spec: registry.MethodSpec, config: Any) -> str:
  """Returns why a config has no seat for a past self; '': it has one."""
  role = registry.settings_of(spec, 'memory', 'league')[0][1]['role']
  seats = tuple(config.rollout.seats)
  if seats != ('policy', role):
    return (
      f"rollout.seats must be ('policy', {role!r}) for c.memory='league', whose"
      f' past selves play the second of two seats, got {seats}'
    )
  if config.role[role].kind != 'frozen':
    return (
      f"role.{role}.kind must be 'frozen' for c.memory='league', which gives it"
      f' the parameters of past selves, got {config.role[role].kind!r}'
    )
  if config.staleness.bound >= HISTORY:
    return (
      f"staleness.bound must be < {HISTORY} for c.memory='league', got"
      f' {config.staleness.bound}'
    )
  return ''


@registry.register('memory', needs=('role:{role}',), check=fits)
def league(
  *,
  role: domain.Named = 'rival',
  size: Annotated[int, domain.Whole(1, 64)] = 8,
  every: domain.Count = 10,
  rule: Rule = PFSP,
  power: domain.NotNegative = 2.0,
  rate: domain.Positive = 32.0,
) -> Memory:
  """Gives a frozen role the parameters of a past self of the policy.

  The policy that a stage begins with is the first past self. A new one takes
  the place of the oldest.

  Args (hyper-parameters):
    role: the frozen role that plays the second seat
    size: N, past selves at most
    every: updates from one snapshot to the next
    rule: which one is drawn after each update
    power: of pfsp, (1 - p)^power, p the chance to beat it by the ratings
    rate: K of Elo, the most that a match changes a rating by
  """

  def init(batch: Batch, tasks: int) -> League:
    del batch, tasks
    return League(
      params=None,
      rating=jnp.full(size, NEW),
      own=jnp.float32(NEW),
      games=jnp.zeros(size, jnp.int32),
      written=jnp.full(size, -1, jnp.int32).at[0].set(0),
      rival=jnp.zeros(HISTORY, jnp.int32),
      score=jnp.float32(0.5),
    )

  def begin(state: League, params: Mapping[str, PyTree]) -> League:
    """Takes the first snapshot; the other places are filled with it."""
    return state.replace(
      params=jax.tree.map(
        lambda p: p[None] + jnp.zeros((size,) + (1,) * p.ndim, p.dtype),
        params['policy'],
      )
    )

  def write(state: League, batch: Batch, credit: Credit, step) -> League:
    del credit, step
    return rated(state, batch, rate)

  def keep(state: League, params: dict[str, PyTree], step, key):
    state = taken(state, params['policy'], step, every)
    at = drawn(state, rule, power, key)
    rival = state.rival.at[(step + 1) % HISTORY].set(at)
    past = jax.tree.map(lambda x: _pick(x, at), state.params)
    return state.replace(rival=rival), {**params, role: past}

  return Memory(
    init=init,
    write=write,
    measure=measure,
    begin=begin,
    keep=keep,
    roles=(role,),
  )


def results(batch: Batch) -> tuple[Array, Array, Array]:
  """Reads the matches of a batch, two neighbours each.

  Returns: the policy's score [m] in {0, 1/2, 1}, whether it counts [m], and the
    step at which the batch was sampled []
  """

  def f(batch: Batch):
    role, match, rows = batch.ids['role'], batch.ids['match'], batch.rows
    own = jnp.where(role == 0, 1.0, -1.0)  # the policy is the first player
    margin = jnp.sum((own * batch.outcome).reshape(-1, 2), axis=1)
    each = (role == 0).reshape(-1, 2)
    whole = batch.status.reshape(-1, 2) != Status.ENV_ERROR
    played = jnp.any(batch.turns.valid, axis=1).reshape(-1, 2)
    known = (match[::2] == match[1::2]) & (each[:, 0] != each[:, 1])
    known &= jnp.all(whole, axis=1) & jnp.any(played, axis=1)
    of = role[jnp.clip(rows.traj, 0)]
    mine = rows.sampled & (rows.traj >= 0) & (of == 0)
    step = jnp.max(jnp.where(mine, rows.version, -1))
    return 0.5 + 0.5 * jnp.clip(margin, -1, 1), known, step

  return mesh.auto(f, None, None, None)(batch)


def rated(state: League, batch: Batch, rate: float) -> League:
  """Returns the league with ratings after the matches of a batch.

  Matches against a past self that has made way since then do not count.
  """
  score, known, step = results(batch)
  at = state.rival[step % HISTORY]
  known &= (step >= 0) & (state.written[at] <= step)
  own, other = rating.elo(state.own, state.rating[at], score, known, rate=rate)
  count = jnp.sum(known, dtype=jnp.int32)
  mean = jnp.sum(jnp.where(known, score, 0.0)) / jnp.maximum(count, 1)
  return state.replace(
    own=own,
    rating=state.rating.at[at].set(other),
    games=state.games.at[at].add(count),
    score=jnp.where(count > 0, mean, state.score),
  )


def taken(state: League, policy: PyTree, step, every: int) -> League:
  """Returns the league with the policy in place of its oldest past self.

  After every so many updates, while there are empty places in one of those.
  """
  due = (step + 1) % every == 0
  empty = state.written < 0
  age = jnp.where(empty, -jnp.iinfo(jnp.int32).max, state.written)
  here = (jnp.arange(len(age)) == jnp.argmin(age)) & due  # [N]
  return state.replace(
    params=jax.tree.map(
      lambda old, new: jnp.where(_lines(here, new), new[None], old),
      state.params,
      policy,
    ),
    rating=jnp.where(here, state.own, state.rating),
    games=jnp.where(here, 0, state.games),
    written=jnp.where(here, step + 1, state.written),
  )


def chances(state: League, rule: str, power: float) -> Array:
  """Computes the chance of every past self to be drawn, [N] f32."""
  there = state.written >= 0
  weight = jnp.ones(len(there))
  if rule == LATEST:
    weight = (state.written == jnp.max(state.written)).astype(jnp.float32)
  elif rule == PFSP:
    p = rating.expected(state.own, state.rating)
    weight = rating.pfsp(p, power=power)
  weight = jnp.where(there, weight, 0.0)
  # If all are beaten for certain, any will do.
  weight = jnp.where(jnp.sum(weight) > 0, weight, there.astype(jnp.float32))
  return weight / jnp.sum(weight)


def drawn(state: League, rule: str, power: float, key) -> Array:
  """Draws a past self: i32[]."""
  logits = jnp.log(chances(state, rule, power))
  return jax.random.categorical(key, logits).astype(jnp.int32)


def measure(state: League) -> Metrics:
  """Measures the league after an update."""
  one, there = jnp.ones(()), (state.written >= 0).astype(jnp.float32)
  return {
    'league/rating': (state.own - NEW, one),
    'league/score': (state.score, one),
    'league/rival_rating': (
      jnp.sum(there * (state.rating - NEW)),
      jnp.sum(there),
    ),
    'league/size': (jnp.sum(there), one),
  }


def _lines(here: Array, leaf: Array) -> Array:
  """Shapes [N] to be broadcast against [N, ...] of a leaf."""
  return here.reshape(here.shape + (1,) * leaf.ndim)


def _pick(leaf: Array, at: Array) -> Array:
  """Returns one of [N, ...], however the rest is laid out over a mesh."""
  here = jnp.arange(leaf.shape[0]) == at
  mine = jnp.where(_lines(here, leaf[0]), leaf, jnp.zeros((), leaf.dtype))
  return jnp.sum(mine, axis=0, dtype=leaf.dtype)
