"""A known step reward with an error planted in it: a PRM of a known quality.

What an environment knows of its turns (its `progress`, in tables the exact
advantage) stands for a perfect PRM. Let z(.) be a value less its mean over the
turns that count, divided by the deviation, T what is known and e the error:

  x = ρ z(T) + sqrt(1 − ρ²) z(e)

correlates with T by ρ, up to what T and e have in common by chance. How much
an error costs depends on whether it lasts: one that is drawn afresh averages
out in what a policy integrates, one that is a function of state and action
adds up from iteration to iteration.
"""

from collections.abc import Callable
from typing import Annotated

import jax
import jax.numpy as jnp

from agentrl import registry, segment
from agentrl.domain import Chance, Named, OneOf
from agentrl.ops import counting
from agentrl.rollout.keys import Stream, step_key, stream_key
from agentrl.signal import step_quality
from agentrl.signal.base import Context, Signal, nothing
from agentrl.types import Array, Batch

# (key of the iteration, key of the run, batch) -> e [B, K]
Error = Callable[[Array, Array, Batch], Array]


def white(now: Array, run: Array, batch: Batch) -> Array:
  """Draws one error for every turn of every iteration."""
  return jax.random.normal(now, batch.turns.valid.shape)


def trajectory(now: Array, run: Array, batch: Batch) -> Array:
  """Draws one error for every trajectory."""
  b, k = batch.turns.valid.shape
  return jnp.broadcast_to(jax.random.normal(now, (b, 1)), (b, k))


def late(now: Array, run: Array, batch: Batch) -> Array:
  """Grows with the turn's index."""
  k = jnp.arange(batch.turns.valid.shape[1], dtype=jnp.float32)
  return jnp.broadcast_to(k, batch.turns.valid.shape)


def long(now: Array, run: Array, batch: Batch) -> Array:
  """Grows with the number of the message's tokens."""
  one = batch.rows.sampled.astype(jnp.float32)
  return segment.index(batch).to_turns(one)


def state(now: Array, run: Array, batch: Batch) -> Array:
  """Returns a function of the state, the same for the whole run."""
  return _drawn_once(run, batch.turns.state)


def state_action(now: Array, run: Array, batch: Batch) -> Array:
  """Draws a function of the state and first message token, as `state`."""
  rows, index = batch.rows, segment.index(batch)
  first, _ = index.bounds(rows.sampled)
  action = index.at_turns(rows.tokens, first)
  return _drawn_once(run, batch.turns.state, action)


ERRORS: dict[str, Error] = {
  'white': white,
  'trajectory': trajectory,
  'late': late,
  'long': long,
  'state': state,
  'state_action': state_action,
}


def _drawn_once(run: Array, *ids: Array) -> Array:
  """Draws a normal number for each combination of ids [B, K] i32."""

  def one(*ids):
    key = run
    for x in ids:
      key = jax.random.fold_in(key, x)
    return jax.random.normal(key)

  return jax.vmap(jax.vmap(one))(*ids)


@registry.register(
  'signal',
  needs=('term:{term}',),
  gives=('signal:degraded_truth',),
  step='degraded_truth',
  tabular=True,
)
def degraded_truth(
  context: Context,
  *,
  term: Named = 'progress',
  correlation: Chance = 0.5,
  error: Annotated[str, OneOf(*ERRORS)] = 'white',
) -> Signal:
  """Returns x [B, K]: what is known of each turn, with an error.

  Args (hyper-parameters):
    term: of the turns, what is known
    correlation: ρ of x with it
    error: what e is a function of, see ERRORS
  """
  del context

  def score(train, batch, signals):
    weight = counting.counted(batch, 'turn').astype(jnp.float32)
    now = step_key(train.key, Stream.ERROR, train.step)
    run = stream_key(train.key, Stream.ERROR)
    e = ERRORS[error](now, run, batch)
    truth = batch.turns.terms[term]
    x = correlation * step_quality.standardized(truth, weight)
    x += jnp.sqrt(1 - correlation**2) * step_quality.standardized(e, weight)
    x = jnp.where(weight > 0, x, 0)
    metrics = {
      'degraded_truth/correlation': (
        step_quality.correlation(x, truth, weight),
        jnp.ones(()),
      )
    }
    return {'degraded_truth': x}, metrics

  return Signal('score_then_update', score, nothing)
