"""Sample several candidates in every state, and play one of the best.

  state -> k candidates, each with one step of the environment -> one is played
        -> the state behind it -> k candidates -> ...

A tree of k attempts: the path that is played, and beside each of its turns
k − 1 leaves. All candidates of a tree have one luck of the environment
(types.Attempts), so that those that act alike come to the same in a world that
draws from it alone. A leaf repeats the turns before its own, which are given to
it and not sampled again: each message that was sampled stands in the batch
once, as such and with its weight.

What a leaf would have come to is unknown. Its own turn counts, its trajectory
does not (ops/counting.py); it has an outcome, the task's own score, only if it
ended where the path would have ended too, had it been played. The same goes for
a path behind whose last state the environment failed for all candidates.

A path is the replay of its last round. A turn whose state, or one before it, is
not that of the round in which it was sampled does not count.
"""

import functools
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp

from agentrl import domain, ops, registry, segment
from agentrl.collect import branch, dynamic
from agentrl.judge import item as judge_item
from agentrl.ops import counting
from agentrl.rollout import registered
from agentrl.types import (
  Array,
  Batch,
  CollectInputs,
  Copies,
  Prefix,
  Rows,
  Span,
  Status,
  Turns,
)

HISTORIES = ('turn', 'full')
ALONG = 'along_turns'  # given by what looks past its turn


def fits(spec: registry.MethodSpec, config: Any) -> str:
  """Returns '' if groups are whole trees, and turns of one message each."""
  name, r = 'candidates', config.rollout
  piece = registry.get('collect', name)
  k = registry.settings(piece, spec.values('collect', name))['k']
  if r.group_size % k:
    return (
      f'hp.collect.{name}.k must divide rollout.group_size, got {k} and'
      f' {r.group_size}'
    )
  if r.history not in HISTORIES:
    return (
      f'rollout.history must be one of {HISTORIES} for c.collect={name!r},'
      f' whose candidates go on from one context, got {r.history!r}'
    )
  if spec.recall != 'none':
    return (
      f"recall must be 'none' for c.collect={name!r}, whose candidates are"
      f' not attempts to write about, got {spec.recall!r}'
    )
  if registered.kind_of(spec).purify is not None:
    return (
      f'rollout.kind must be one that keeps failed calls for c.collect={name!r}'
      f', which goes on behind them, got {spec.rollout!r}'
    )
  return (
    _selection(spec, name)
    or _judging(spec, config, name)
    or _links(spec, name)
    or branch.fits(spec, config)
  )


def _selection(spec: registry.MethodSpec, name: str) -> str:
  """Returns '' if all that is collected stays."""
  if spec.curate in ((), ('none',)):
    return ''
  return (
    f"c.curate must be ('none',) for c.collect={name!r}, since curation keeps"
    f' none of the candidates that were not played, got {spec.curate}'
  )


def _judging(spec: registry.MethodSpec, config: Any, name: str) -> str:
  """Returns '' if judges are asked for what rounds have added, and no more."""
  for judge in spec.judge:
    piece = registry.get('judge', judge)
    values = registry.settings(piece, spec.values('judge', judge))
    unit = judge_item.unit(piece, values)
    if unit != 'turn':
      return (
        f'c.judge must name judges of turns for c.collect={name!r}, which asks'
        f' for scores behind every turn, got {judge!r}, which judges a {unit}'
      )
  if config.judging.budget:
    return (
      f'judging.budget must be 0 for c.collect={name!r}, which judges every'
      f' round by itself, got {config.judging.budget}'
    )
  return ''


def _links(spec: registry.MethodSpec, name: str) -> str:
  """Returns '' if no turn's credit depends on others of its trajectory."""
  for scope, slot, link in registry.parts(spec):
    if ALONG in registry.get(slot, link).gives:
      field = 'c.post' if scope == 'post' else f'c.stream.{scope}'
      field = field if slot == 'link' else f'c.{slot}'
      return (
        f'{field} must credit turns by themselves for c.collect={name!r}, of'
        f' whose candidates most have no turn behind them, got {link!r}; or set'
        " c.collect to 'once'"
      )
  return ''


class State(NamedTuple):
  """What the next round goes on from; n trees of k attempts, A = n k."""

  rows: Rows  # of the last round's A trajectories
  entropy: Array  # [A, K] f32
  chosen: Array  # [n] i32  the candidate of each tree that is played
  going: Array  # [n] bool  it goes on behind that


class Round(NamedTuple):
  """What a round has sampled."""

  batch: Batch  # A trajectories, without counts
  sampled: dict[str, Array]  # [1] i32 each
  chosen: Array  # [1, n] i32
  going: Array  # [1, n] bool  trees that had candidates


@registry.register(
  'collect',
  needs=('term:entropy', 'term:{by}'),
  gives=('column:unplayed', 'given_turns'),
  check=fits,
)
def candidates(
  x: CollectInputs,
  *,
  k: Annotated[int, domain.Whole(2)] = 4,
  by: domain.Named = 'progress',
  play: Annotated[str, domain.OneOf('best', 'any')] = 'best',
) -> Batch:
  """Samples k messages in every state of a path, one of which is played.

  VPR (arXiv 2605.10325). A attempts make A / k trees and K A trajectories, K
  the most turns: of each tree its path, the candidates that were not played,
  and empty ones. ids['unplayed'] [K A] is 0 for paths alone. Each candidate is
  an attempt of one turn in the counts of what was sampled; environments play
  the turns before it again, which count as their steps.

  Args:
    k: candidates of a state; divides rollout.group_size
    by: term of turns that candidates are compared by
    play: 'best', at random among those of the highest term, or 'any', at
      random among all; in either case of those that were scored
  """
  a = x.attempts.task.shape[0]
  tree = jnp.arange(a, dtype=jnp.int32) // k
  attempts = x.attempts.replace(luck=tree * k)
  pick = functools.partial(chosen, k=k, by=by, play=play)
  limit = jnp.asarray(attempts.limit)

  def sample(state: State | None, t) -> tuple[State, Round]:
    trees = limit[::k] > 0 if state is None else state.going
    going = trees[tree]
    now = attempts.replace(limit=jnp.where(going, jnp.minimum(limit, t + 1), 0))
    if state is not None:
      origin = tree * k + state.chosen[tree]
      copies = Copies(state.rows, state.entropy, origin, a)
      now = now.replace(prefix=Prefix(jnp.where(going, t, 0), copies))
    batch = x.sample(now, x.key)
    # Trajectories have the keys below.
    noise = jax.random.fold_in(jax.random.fold_in(x.key, 2 * a), t)
    best = pick(batch, t, jax.random.uniform(noise, (a,)))
    return _played(batch, t, best, trees, limit)

  state, first = sample(None, 0)
  turns = first.batch.turns.valid.shape[1]
  made = first
  if turns > 1:
    later = _scan(x, sample, state, jnp.arange(1, turns))
    made = jax.tree.map(lambda *y: jnp.concatenate(y), first, later)
  batch = grown(made, jnp.tile(limit, turns), k)
  sampled = {name: jnp.sum(n) for name, n in made.sampled.items()}
  return x.score(batch.replace(sampled=sampled))


def _played(
  batch: Batch, t, best: Array, trees: Array, limit: Array
) -> tuple[State, Round]:
  """Returns where trees go on behind a round, and what it has sampled.

  Args:
    batch: A trajectories
    t: turn of their candidates
    best: [n] i32 in [0, k), who is played
    trees: [n] bool, those that had candidates
    limit: [A] i32
  """
  a, n = limit.size, best.size
  played = jnp.arange(0, a, a // n) + best
  goes_on = batch.turns.valid[played, t] & (t + 1 < limit[played])
  goes_on &= trees & (batch.status[played] == Status.SCHEDULE)
  made = Round(
    batch.replace(sampled={}),
    {name: count[None] for name, count in batch.sampled.items()},
    best[None],
    trees[None],
  )
  return State(batch.rows, batch.turns.terms['entropy'], best, goes_on), made


def _scan(x: CollectInputs, sample, state: State, rounds: Array) -> Round:
  """Samples rounds; returns them one behind the other."""
  if x.scan is not None:  # one program, however many there are
    _, made = x.scan(sample, state, rounds)
    return jax.tree.map(lambda y: y.reshape(-1, *y.shape[2:]), made)
  every = []
  for t in range(1, 1 + len(rounds)):
    state, made = sample(state, t)
    every.append(made)
  return jax.tree.map(lambda *y: jnp.concatenate(y), *every)


def chosen(batch: Batch, t, noise: Array, *, k: int, by: str, play: str):
  """Chooses the candidate of each tree that is played: [n] i32 in [0, k).

  Args:
    batch: A candidates, those of a tree side by side
    t: their turn
    noise: [A] uniform on [0, 1)
  """
  scored = counting.counted(batch, 'turn')[:, t].reshape(-1, k)
  value = batch.turns.terms[by][:, t].reshape(-1, k)
  if play == 'any':
    value = jnp.zeros_like(value)
  value = jnp.where(scored, value, -jnp.inf)
  top = jnp.max(value, axis=1, keepdims=True)
  slack = ops.rounding(jnp.where(jnp.isfinite(top), jnp.abs(top), 0))
  among = jnp.where(value >= top - slack, noise.reshape(-1, k), -1)
  return jnp.argmax(among, axis=1).astype(jnp.int32)


def grown(made: Round, limit: Array, k: int) -> Batch:
  """Returns trees of the rounds, each tree's path before its leaves.

  Args:
    made: T rounds, T A trajectories
    limit: [T A] i32, turns of their attempts
  """
  batch, (rounds, n) = made.batch, made.chosen.shape
  valid, turns = batch.turns.valid, batch.turns
  t = jnp.repeat(jnp.arange(rounds), n * k)  # the round of each trajectory
  member = jax.nn.one_hot(made.chosen, k, dtype=bool)  # [T, n, k]
  last, cut = _ends(made, k)
  past = jnp.arange(rounds)[:, None] - last[None]  # [T, n]  rounds behind it
  path = (member & (past == 0)[..., None]).reshape(-1)  # [T A]
  known = path & ~jnp.tile(jnp.repeat(cut, k), rounds)
  own = jnp.arange(valid.shape[1])[None] == t[:, None]  # [T A, K]
  leaf = made.going[..., None] & (~member | (past > 0)[..., None])
  broken = batch.status == Status.ENV_ERROR
  leaf = leaf.reshape(-1) & (jnp.any(valid & own, axis=1) | broken)
  given = valid & leaf[:, None] & ~own
  ended = (batch.status != Status.SCHEDULE) | (t + 1 >= limit)
  other = path[:, None] & valid & ~_repeated(made, last, k)
  batch = batch.replace(
    rows=_rows(batch.rows, given, other, path | leaf),
    readings={
      name: _rows(rows, given, other, path | leaf)
      for name, rows in batch.readings.items()
    },
    turns=_turns(turns, made, path, leaf, given | other, k),
    ids=batch.ids | {counting.UNPLAYED: (~known).astype(jnp.int32)},
    outcome=jnp.where(known | (leaf & ended), batch.outcome, 0),
  )
  of_tree = path.reshape(rounds, n, k).transpose(1, 0, 2).reshape(n, -1)
  place = jnp.arange(path.size).reshape(rounds, n, k)
  place = place.transpose(1, 0, 2).reshape(n, -1)
  first = jnp.argsort(~of_tree, axis=1, stable=True)
  order = jnp.take_along_axis(place, first, axis=1).reshape(-1)
  batch = dynamic.take(batch, order.astype(jnp.int32))
  batch = batch.replace(turns=_nodes(batch.turns, given[order], rounds * k))
  attempted = {
    'task': batch.ids['task'],
    'outcome': batch.outcome,
    'counts': counting.trajectories(batch),
  }
  return batch.replace(attempted=attempted)


def _of_chosen(x: Array, made: Round, k: int) -> Array:
  """Takes those that were chosen in each round: [T A, ..] -> [T, n, ..]."""
  rounds, n = made.chosen.shape
  x = x.reshape(rounds, n, k, *x.shape[1:])
  return x[jnp.arange(rounds)[:, None], jnp.arange(n)[None], made.chosen]


def _ends(made: Round, k: int) -> tuple[Array, Array]:
  """Returns the round whose choice is a tree's path, and whether it broke then.

  Where the environment failed behind all candidates of a state, the path ends
  before them, and what it would have come to is unknown.

  Returns: [n] i32, -1 without any; [n] bool
  """
  last = jnp.sum(made.going, axis=0) - 1
  status = _of_chosen(made.batch.status, made, k)  # [T, n]
  status = status[last, jnp.arange(last.size)]
  cut = (status == Status.ENV_ERROR) & (last > 0)
  return last - cut, cut


def _repeated(made: Round, last: Array, k: int) -> Array:
  """Marks turns of paths behind states in which they were sampled.

  A world that does not repeat itself has shown others to the replay: [T A, K]
  bool, for each tree.

  Args:
    last: [n] i32, of `_ends`
  """
  rounds, n = made.chosen.shape
  state = _of_chosen(made.batch.turns.state, made, k)  # [T, n, K]
  now = state[last, jnp.arange(n)]
  turns = state.shape[2]
  later = jnp.arange(turns)[None] > jnp.arange(rounds)[:, None]  # [T, K]
  same = jnp.all((state == now[None]) | later[:, None], axis=2)  # [T, n]
  return jnp.tile(jnp.repeat(same.T, k, axis=0), (rounds, 1))


def _rows(rows: Rows, given: Array, other: Array, there: Array) -> Rows:
  """Takes samples and weights off given turns, and empties other rows.

  Args:
    rows: of rounds, or a reading of them; each round counts its own from 0
    given: [B, K] bool
    other: [B, K] bool, sampled behind something else
    there: [B] bool, trajectories that are left
  """
  b, k = given.shape
  each = len(rows.traj) // b  # they stand together, equally many of each
  owner = jnp.arange(b * each, dtype=jnp.int32)[:, None] // each
  rows = rows.replace(traj=jnp.where(rows.traj >= 0, owner, -1))
  index = segment.TurnIndex(rows.traj, rows.turn, b, k)
  again = index.to_tokens(given)
  here = index.trajectories_to_tokens(there)
  own = here & ~again
  return rows.replace(
    seg=jnp.where(here, rows.seg, -1),
    traj=jnp.where(here, rows.traj, -1),
    turn=jnp.where(here, rows.turn, -1),
    span=jnp.where(again & rows.sampled, Span.PREFIX, rows.span),
    sampled=rows.sampled & own,
    weight=jnp.where(own & ~index.to_tokens(other), rows.weight, 0),
    logp=jnp.where(own, rows.logp, 0),
  )


def _turns(turns: Turns, made: Round, path, leaf, without, k: int) -> Turns:
  """Returns turns that count where they were sampled, and are scored as then.

  Args:
    path, leaf: [T A] bool
    without: [T A, K] bool, turns that do not count
  """
  rounds, n = made.chosen.shape
  shape = turns.valid.shape

  def sampled_then(x):  # [T A, K], of the path's turn t in round t
    t = jnp.arange(rounds)
    x = _of_chosen(x, made, k)[t, :, t]  # [T, n]
    x = jnp.broadcast_to(x.T[None, :, None], (rounds, n, k, shape[1]))
    return x.reshape(shape)

  whole = path & (made.batch.status != Status.ENV_ERROR)
  again = whole[:, None] & turns.valid
  there = (path | leaf)[:, None]

  def replayed(x):
    return jnp.where(again, sampled_then(x), x)

  return turns.replace(
    terms={name: replayed(x) for name, x in turns.terms.items()},
    scored=replayed(turns.scored) & there & ~without,
    valid=turns.valid & there,
  )


def _nodes(turns: Turns, given: Array, each: int) -> Turns:
  """Gives the given turns of leaves the nodes of their tree's path.

  Args:
    given: [B, K] bool
    each: trajectories of a tree, of which the path is the first
  """
  b, k = given.shape
  own = jnp.arange(b * k, dtype=jnp.int32).reshape(b, k)
  path = own[jnp.arange(b) // each * each]
  return turns.replace(node=jnp.where(given, path, own))
