"""A reward model: one scalar head that scores trajectories, learned from pairs.

  r_k     the head's value before the last sampled token of turn k, which has
          read the turn's message but for that token, the end of its turn
  R(τ)    Σ_k r_k, its mean over turns, or r of the last turn

  L = −Σ_p w_p log σ(R_win − R_lose) / Σ_p w_p       (Bradley and Terry, 1952)

R is known up to a constant per task. Pairs of turns compare r_k alone. In place
of pairs R may be regressed on the outcome, ½ (R − outcome)².

A model that is fitted in one stage and used in another is frozen there by
steps=0; it then reads no pairs.
"""

from typing import Annotated, Any

import jax
import jax.numpy as jnp

from agentrl import registry, segment
from agentrl.advantage import returns
from agentrl.curate import select
from agentrl.domain import Count0, OneOf
from agentrl.loss import ppo
from agentrl.ops import counting
from agentrl.signal import gradient_steps
from agentrl.signal.base import Context, Signal
from agentrl.types import Array, Batch, Metrics, Outputs, Signals

LOSSES = ('pairs', 'outcome')
TRAJECTORY = ('sum', 'mean', 'last')
ROLE = 'reward'


def fits(spec: registry.MethodSpec, config: Any) -> str:
  """Returns '' if there are pairs where it learns from them."""
  del config
  ((_, hp),) = registry.settings_of(spec, 'signal', 'reward_model')
  if (
    hp['steps']
    and hp['loss'] == 'pairs'
    and 'pairs' not in (registry.provided(spec))
  ):
    return (
      "c.curate must make pairs for signal 'reward_model', got"
      f" {spec.curate}; add 'opposite_ranks', or freeze the model by"
      ' hp.signal.reward_model.steps=0'
    )
  return ''


def turn_scores(value: Array, batch: Batch) -> Array:
  """Reads r_k: value [N, T] before a turn's last sampled token: [B, K].

  A copy of a turn whose tokens stand with another trajectory has that one's.
  """
  index, sampled = segment.index(batch), batch.rows.sampled
  _, end = index.bounds(sampled)
  there = index.to_turns(sampled.astype(value.dtype)) > 0
  own = jnp.where(there, index.at_turns(value, end), 0)
  return jnp.where(there, own, segment.share_turns(own, batch))


def parts(step: Array, batch: Batch, trajectory: str) -> Array:
  """Returns what each turn adds to R(τ): [B, K], Σ_k of which is R."""
  OneOf(*TRAJECTORY).check('reward_model.trajectory', trajectory)
  valid = returns.sampled_turns(batch)
  if trajectory == 'last':
    valid = segment.last_turn(valid)
  x = jnp.where(valid, step, 0)
  if trajectory == 'mean':
    x /= jnp.maximum(jnp.sum(valid, axis=1, keepdims=True), 1)
  return x


def margins(step: Array, batch: Batch, trajectory: str) -> Array:
  """Returns R_win − R_lose of each pair, of turns r_win − r_lose: [P]."""
  pairs = segment.pairs_of(batch)
  whole = segment.at_halves(parts(step, batch, trajectory), pairs)
  own = segment.at_halves(step, pairs)
  turn = jnp.stack([pairs.win[:, 1], pairs.lose[:, 1]], axis=1)
  score = jnp.where(turn < 0, whole, own)
  return score[:, 0] - score[:, 1]


def best_outcome(score: Array, batch: Batch) -> tuple[Array, Array]:
  """Returns (sum, weight) over groups of the outcome of the member scored best.

  What the best of n has in truth, n the group; equal scores share it. Of
  trajectories that count.
  """
  group, live = select.group_ids(batch), counting.trajectories(batch)
  best = live & (score >= segment.segment_max(score, group, live))
  share = 1 / jnp.maximum(
    segment.segment_sum(best.astype(score.dtype), group), 1
  )
  weight = jnp.where(best, share, 0)
  return jnp.sum(weight * batch.outcome), jnp.sum(weight)


def fields(name: str, step: Array, batch: Batch) -> tuple[Signals, Metrics]:
  """Returns a reward model's fields of a batch, and <name>/best_outcome.

  Args:
    step: what each turn adds to R(τ) [B, K]
  """
  whole = jnp.sum(step, axis=1, keepdims=True)
  said = {'step': step, 'return': jnp.where(batch.turns.valid, whole, 0)}
  best = best_outcome(whole[:, 0], batch)
  return {f'{name}.{k}': x for k, x in said.items()}, {
    f'{name}/best_outcome': best
  }


@registry.register(
  'signal',
  needs=(f'role:{ROLE}',),
  gives=('signal:reward_model.step', 'signal:reward_model.return'),
  step='reward_model.step',
  check=fits,
)
def reward_model(
  context: Context,
  *,
  loss: Annotated[str, OneOf(*LOSSES)] = 'pairs',
  trajectory: Annotated[str, OneOf(*TRAJECTORY)] = 'mean',
  order: Annotated[
    str, OneOf('score_then_update', 'update_then_score')
  ] = 'score_then_update',
  steps: Count0 = 1,
) -> Signal:
  """Scores turns, reward_model.step, and trajectories, reward_model.return.

  Both are [B, K]: what a turn adds to R(τ), and R(τ) on every turn.

  Metrics: reward_model/best_outcome, see above, and with steps
  reward_model/loss and pair_accuracy, of pairs that it is about to learn from;
  ties count half.

  Args (hyper-parameters):
    loss: 'pairs' (Bradley-Terry) or 'outcome' (squared error)
    trajectory: R(τ) is the 'sum' of its turns' scores, their 'mean' or the
      score of the 'last'
    order: 'score_then_update' or 'update_then_score'
    steps: gradient steps on the whole batch, each iteration; 0: frozen
  """
  OneOf(*LOSSES).check('reward_model.loss', loss)

  def score(state, batch, signals):
    out = context.outputs(ROLE, state.params[ROLE], batch.rows, 'value')
    step = parts(turn_scores(out.value[..., 0], batch), batch, trajectory)
    return fields('reward_model', step, batch)

  def objective(out: Outputs, batch: Batch):
    step = turn_scores(out.value[..., 0], batch)
    if loss == 'pairs':
      d = margins(step, batch, trajectory)
      weight = segment.pairs_of(batch).weight
      each, right = -jax.nn.log_sigmoid(d), (d > 0) + 0.5 * (d == 0)
      metrics = {'pair_accuracy': ppo.metric(right, weight)}
    else:
      d = jnp.sum(parts(step, batch, trajectory), axis=1) - batch.outcome
      each = 0.5 * jnp.square(d)
      weight = counting.trajectories(batch).astype(d.dtype)
      metrics = {}
    return jnp.sum(weight * each) / jnp.maximum(jnp.sum(weight), 1), metrics

  def update(state, batch, signals, credit):
    if not steps:
      return state, {}
    return gradient_steps.fit_coupled(
      context=context,
      role=ROLE,
      state=state,
      batch=batch,
      loss=lambda out: objective(out, batch),
      needs=('value',),
      steps=steps,
      name='reward_model',
    )

  return Signal(order, score, update)
