"""A reward model with a head for each dimension that turns are judged by.

  h_kd   value of head d before the last sampled token of turn k
  y_kd   whether turn k is good in dimension d, a term of turns in [0, 1]
  p_kd = σ(h_kd)

  L    = −Σ_d mean_k [ y_kd log p_kd + (1 − y_kd) log(1 − p_kd) ]
  R(τ) = mean_k Σ_d w_d p_kd, or the sum over turns, or the last turn's

A model of one dimension is the usual one, which is blind to the others. That
four dimensions are learned apart and then added up is of RecRM-Bench (arXiv
2605.11874); a logistic head for each on one network is ours.
"""

from typing import Annotated, Any

import jax
import jax.numpy as jnp

from agentrl import registry
from agentrl.advantage import returns
from agentrl.domain import UNIT, Count0, Name, OneOf, Real, Tuple
from agentrl.loss import ppo
from agentrl.ops import counting
from agentrl.rollout.keys import Stream, step_key
from agentrl.signal import gradient_steps, reward_model
from agentrl.signal.base import Context, Signal
from agentrl.types import Array, Batch, Metrics, Outputs

NAME = 'multi_head_reward'


def fits(spec: registry.MethodSpec, config: Any) -> str:
  """Returns '' if each dimension has a head and a weight."""
  ((_, hp),) = registry.settings_of(spec, 'signal', NAME)
  at, want = f'hp.signal.{NAME}', len(hp['dimensions'])
  if (got := config.role[reward_model.ROLE].heads) < want:
    return (
      f'role.{reward_model.ROLE}.heads must be >= {want}, one for each of'
      f' {at}.dimensions={tuple(hp["dimensions"])}, got {got}'
    )
  if hp['weights'] and len(hp['weights']) != want:
    return (
      f'{at}.weights must be as long as dimensions={tuple(hp["dimensions"])},'
      f' or (), got {tuple(hp["weights"])}'
    )
  return ''


def truths(batch: Batch, dimensions: tuple[str, ...]) -> Array:
  """Reads y, 0 on turns that do not count: [B, K, D]."""
  counts = counted(batch)
  every = jnp.broadcast_to(batch.outcome[:, None], counts.shape)
  told = batch.turns.terms | {registry.OUTCOME: every}
  good = {name: jnp.clip(told[name], 0, 1) for name in dimensions}
  each = [jnp.where(counts, good[name], 0) for name in dimensions]
  return jnp.stack(each, axis=-1)


def counted(batch: Batch) -> Array:
  """Marks turns that the model is judged and learns by: [B, K] bool."""
  return counting.counted(batch, 'trajectory') & returns.sampled_turns(batch)


def read(out: Outputs, batch: Batch, heads: int) -> Array:
  """Reads h, of each turn and head: [B, K, D]."""
  each = [
    reward_model.turn_scores(out.value[..., i], batch) for i in range(heads)
  ]
  return jnp.stack(each, axis=-1)


def measure(h: Array, batch: Batch, dimensions: tuple[str, ...]) -> Metrics:
  """Measures which turns heads tell, and which are good, by dimension."""
  told: Metrics = {}
  y, weight = truths(batch, dimensions), counted(batch).astype(jnp.float32)
  for i, name in enumerate(dimensions):
    good = y[..., i] > 0.5
    right = (h[..., i] > 0) == good
    told[f'{NAME}/accuracy_{name}'] = ppo.metric(right, weight)
    told[f'{NAME}/share_{name}'] = ppo.metric(good, weight)
  return told


@registry.register(
  'signal',
  needs=(f'role:{reward_model.ROLE}', 'term:*dimensions'),
  gives=(f'signal:{NAME}.step', f'signal:{NAME}.return'),
  step=f'{NAME}.step',
  check=fits,
)
def multi_head_reward(
  context: Context,
  *,
  dimensions: Annotated[
    tuple[str, ...], Tuple(Name('a term'), least=1, once=True)
  ] = (registry.OUTCOME,),
  weights: Annotated[tuple[float, ...], Tuple(Real())] = (),
  noise: Annotated[float, UNIT] = 0.0,
  trajectory: Annotated[str, OneOf(*reward_model.TRAJECTORY)] = 'mean',
  order: Annotated[
    str, OneOf('score_then_update', 'update_then_score')
  ] = 'score_then_update',
  steps: Count0 = 1,
) -> Signal:
  """Scores turns, multi_head_reward.step, and trajectories, .return.

  Both are [B, K]: what a turn adds to R(τ), and R(τ) on every turn. See the
  module's head.

  Metrics, of each dimension: multi_head_reward/accuracy_<dimension>, turns
  whose y the head tells, without noise and before it learns from them, and
  share_<dimension>, turns that are good; and with steps loss.

  Args (hyper-parameters):
    dimensions: terms of turns, cut to [0, 1], or 'outcome'; head d learns the
      d-th
    weights: w of each; (): 1 / D, so that R is a mean
    noise: chance that a label is learned as 1 − y, drawn anew for each batch
    trajectory: R(τ) is the 'sum' of its turns' scores, their 'mean' or the
      score of the 'last'
    order: 'score_then_update' or 'update_then_score'
    steps: gradient steps on the whole batch, each iteration; 0: frozen
  """
  d = len(dimensions)
  w = jnp.asarray(weights or (1 / d,) * d, jnp.float32)

  def score(state, batch, signals):
    role = reward_model.ROLE
    out = context.outputs(role, state.params[role], batch.rows, 'value')
    h = read(out, batch, d)
    step = reward_model.parts(jax.nn.sigmoid(h) @ w, batch, trajectory)
    said, told = reward_model.fields(NAME, step, batch)
    return said, told | measure(h, batch, dimensions)

  def update(state, batch, signals, credit):
    if not steps:
      return state, {}
    y, counts = truths(batch, dimensions), counted(batch)[..., None]
    key = step_key(state.key, Stream.LABELS, state.step)
    y = jnp.where(jax.random.bernoulli(key, noise, y.shape), 1 - y, y)

    def loss(out):
      h = read(out, batch, d)
      each = jnp.where(counts, jax.nn.softplus(h) - y * h, 0)
      return jnp.sum(each) / jnp.maximum(jnp.sum(counts), 1), {}

    return gradient_steps.fit_coupled(
      context=context,
      role=reward_model.ROLE,
      state=state,
      batch=batch,
      loss=loss,
      needs=('value',),
      steps=steps,
      name=NAME,
    )

  return Signal(order, score, update)
