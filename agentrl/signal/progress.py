"""Progress: contribution of each turn to the outcome (SPA-RL, 2505.20732).

A head at the last token of every message says c_k, fitted so that a
trajectory's contributions add up to its outcome R:

  loss = mean_i ( Σ_k c_ik − R_i )²

Only the sum is tied: where trajectories are alike in length the shares of
their turns are free, and few steps are better than many.
"""

import chex
import jax.numpy as jnp

from agentrl import registry, segment
from agentrl.advantage import returns
from agentrl.domain import Count
from agentrl.ops import counting
from agentrl.signal import gradient_steps, step_quality
from agentrl.signal.base import Context, Signal
from agentrl.types import Array, Batch


@registry.register(
  'signal', needs=('role:progress',), gives=('signal:progress',)
)
def progress(context: Context, *, steps: Count = 4) -> Signal:
  """Returns c [B, K], in units of the outcome, fitted to iterations before.

  Args (hyper-parameters):
    steps: gradient steps on the whole batch, each iteration
  """

  def score(state, batch, signals):
    params = state.params['progress']
    out = context.outputs('progress', params, batch.rows, 'value')
    c = contributions(out.value[..., 0], batch)
    one = jnp.ones(())
    metrics = {'progress/error': (sum_error(c, batch), one)}
    if 'progress' in batch.turns.terms:
      counted = counting.counted(batch, 'turn').astype(c.dtype)
      truth = batch.turns.terms['progress']
      rho = step_quality.correlation(c, truth, counted)
      metrics['progress/truth_correlation'] = (rho, one)
    return {'progress': c}, metrics

  def update(state, batch, signals, credit):
    def loss(out):
      return sum_error(contributions(out.value[..., 0], batch), batch), {}

    return gradient_steps.fit_coupled(
      context, 'progress', state, batch, loss, ('value',), steps
    )

  return Signal('score_then_update', score, update)


def contributions(value: Array, batch: Batch) -> Array:
  """Reads c [B, K]: the value [N, T] at each message's last token, else 0."""
  chex.assert_equal_shape([value, batch.rows.tokens])
  index = segment.index(batch)
  _, last = index.bounds(batch.rows.sampled)
  c = index.at_turns(value, last)
  return jnp.where(returns.sampled_turns(batch), c, 0)


def sum_error(c: Array, batch: Batch) -> Array:
  """Averages (Σ_k c_k − R)² over trajectories that count: a scalar."""
  chex.assert_equal_shape([c, batch.turns.valid])
  live = counting.trajectories(batch).astype(c.dtype)
  error = jnp.square(jnp.sum(c, axis=1) - batch.outcome)
  return jnp.sum(live * error) / jnp.maximum(jnp.sum(live), 1)
