"""Several policies that learn from one batch, each from what it wrote.

Signals and advantages are computed once, over the whole batch. Then each policy
is updated as a single one is, by an algorithm in which its role is called
`policy`, on a batch in which what the others wrote is not sampled and has no
weight:

  loss of role r = Σ_{tokens of r} coefficient · value,   coefficients over r's

so that the gradient of one never sees a token of another, and a mean is over
its own tokens. All views are of the state before the update: the order of the
roles changes nothing.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from agentrl import segment
from agentrl.learner.algorithm import POLICY, Algorithm
from agentrl.ops import counting
from agentrl.rollout.keys import Stream, stream_key
from agentrl.types import Array, Batch, Credit, Metrics, Signals, TrainState

# As learner.update.policy_update.
Update = Callable[
  [Algorithm, TrainState, Batch, Signals, Credit], tuple[TrainState, Metrics]
]


class View(NamedTuple):
  """An update as one of its policies sees it."""

  role: str
  alg: Algorithm  # in which the role is called policy
  state: TrainState  # likewise
  batch: Batch  # of which only its own tokens are sampled and weigh
  mine: Array | None  # [N, T] bool  tokens of its own trajectories; None: all

  def own(self, tree: Any) -> Any:
    """Returns arrays [N, T], 0 at tokens of other trajectories."""
    if (mine := self.mine) is None:
      return tree
    return jax.tree.map(lambda x: jnp.where(mine, x, 0), tree)


def views(alg: Algorithm, state: TrainState, batch: Batch) -> Iterator[View]:
  """Yields the view of every player; of a single policy all as it is."""
  if alg.players == (POLICY,):
    yield View(POLICY, alg, state, batch, None)
    return
  for i, role in enumerate(alg.players):
    own = batch.ids['role'] == i
    mine = segment.index(batch).trajectories_to_tokens(own)  # [N, T]
    rows = batch.rows.replace(
      sampled=batch.rows.sampled & mine,
      weight=jnp.where(mine, batch.rows.weight, 0),
    )
    yield View(
      role,
      _named_policy(alg, role),
      _with_policy(state, role, i),
      batch.replace(rows=rows),
      mine,
    )


def _named_policy(alg: Algorithm, role: str) -> Algorithm:
  """Returns the algorithm whose policy is the role."""
  context = alg.context
  modules = context.modules | {POLICY: context.modules[role]}
  rules = context.rules
  if role in rules:  # a frozen one has none
    rules = rules | {POLICY: rules[role]}
  context = context._replace(modules=modules, rules=rules)
  return alg._replace(context=context)


def _with_policy(state: TrainState, role: str, i: int) -> TrainState:
  """Returns the state whose policy is the role, with randomness of its own."""
  own = {POLICY: state.params[role]}
  opt = {POLICY: state.opt[role]} if role in state.opt else {}
  players = stream_key(state.key, Stream.PLAYER)
  return state.replace(
    params=state.params | own,
    opt=state.opt | opt,
    key=jax.random.fold_in(players, i) if i else state.key,
  )


def update_each(
  alg: Algorithm,
  state: TrainState,
  batch: Batch,
  signals: Signals,
  credit: Credit,
  update: Update,
) -> tuple[TrainState, Metrics]:
  """Updates every policy that learns at this step.

  Metrics of another role than the policy are named <role>/...; those of a role
  whose turn it is not have no weight.

  Args:
    update: of a single policy
  """
  learners = learning(alg)
  params, opt, metrics = dict(state.params), dict(state.opt), dict[str, Any]()
  for view in views(alg, state, batch):
    if view.role not in learners:
      continue
    own = credit.replace(weight=view.own(credit.weight))
    run: Callable = functools.partial(_updated, view, signals, own, update)
    if every := alg.learn_in_turn:
      turn = (state.step - alg.start) // every % len(learners)
      run = _if(turn == learners.index(view.role), run, view.state)
    params[view.role], opt[view.role], more = run()
    metrics |= {_renamed(name, view.role): x for name, x in more.items()}
  return state.replace(params=params, opt=opt), metrics


def _updated(view: View, signals, credit: Credit, update: Update):
  """Returns parameters, optimizer state and metrics after the update."""
  new, metrics = update(view.alg, view.state, view.batch, signals, credit)
  return new.params[POLICY], new.opt[POLICY], metrics


def _if(learns: Array, run: Callable, state: TrainState) -> Callable:
  """Returns what runs if it learns, and else leaves all as it is."""

  def leave():
    metrics = jax.eval_shape(run)[2]
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), metrics)
    return state.params[POLICY], state.opt[POLICY], nothing

  return lambda: jax.lax.cond(learns, run, leave)


def _renamed(name: str, role: str) -> str:
  if role == POLICY:
    return name
  return f'{role}/{name.removeprefix(f"{POLICY}/")}'


def learned(alg: Algorithm, batch: Batch) -> Batch:
  """Drops the weight of frozen players' trajectories."""
  learners = learning(alg)
  still = [i for i, role in enumerate(alg.players) if role not in learners]
  if not still:
    return batch
  frozen = jnp.isin(batch.ids['role'], jnp.array(still))
  tokens = segment.index(batch).trajectories_to_tokens(frozen)
  weight = jnp.where(tokens, 0, batch.rows.weight)
  return batch.replace(rows=batch.rows.replace(weight=weight))


def learning(alg: Algorithm) -> tuple[str, ...]:
  """Returns the players that learn; the others are frozen."""
  return tuple(role for role in alg.players if role in alg.context.rules)


def versions(alg: Algorithm, step: Any) -> dict[str, Any]:
  """Returns the version of every player before the update of a step.

  A version counts the updates of its own policy, on from the step at which the
  stage begins: where all learn in each update it is the step, that of a frozen
  one never changes.

  Args:
    step: int, or an array of them
  """
  learners, every = learning(alg), alg.learn_in_turn
  done = step - alg.start
  out = {}
  for role in alg.players:
    if role not in learners:
      own = done * 0
    elif not every:
      own = done
    else:
      cycle = every * len(learners)
      over = done % cycle - learners.index(role) * every
      own = done // cycle * every + jnp.clip(over, 0, every)
    out[role] = alg.start + own
  return out


def played_versions(alg: Algorithm, step: Any) -> Array:
  """Returns what tokens are marked with: the version [], of several [R]."""
  if alg.players == (POLICY,):
    return jnp.asarray(step, jnp.int32)
  return jnp.stack(
    [jnp.asarray(x, jnp.int32) for x in versions(alg, step).values()]
  )


@dataclasses.dataclass(frozen=True)
class ByRole:
  """Measures success and return of each player's trajectories, of a batch.

  Equal for equal players, so that it is compiled once.
  """

  players: tuple[str, ...]

  def __call__(self, batch: Batch) -> Metrics:
    whole = counting.counted(batch, 'trajectory')
    total = jnp.sum(batch.turns.reward * whole, axis=1)  # [B]
    won, out = batch.outcome > 0.5, dict[str, tuple[Array, Array]]()
    for i, role in enumerate(self.players):
      own = (batch.ids['role'] == i) & counting.trajectories(batch)
      count = jnp.sum(own, dtype=jnp.float32)
      out[f'{role}/success'] = jnp.sum(own & won, dtype=jnp.float32), count
      out[f'{role}/return'] = jnp.sum(jnp.where(own, total, 0.0)), count
    return out
