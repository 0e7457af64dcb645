"""Step rewards against two truths, and how long their errors live.

  advantage: the exact one of the policy that played
  progress: the difference of the solver's value, as `oprl_truth` has it

Neither stands for the other. Let x be the step rewards of a batch, z(.) a
value less its mean over the batch's turns, divided by the deviation. With the
correlation ρ of x and the advantage A the error is

  e = z(x) − ρ z(A),

and its persistence the correlation, over the cells (state, action) that this
iteration and the last one visited, of a cell's mean e with its last. An error
that is drawn afresh has about none and averages out in what a policy
integrates; one that is a fixed function of the cell has 1 and adds up. What an
error has of the state alone cancels in a policy gradient: the persistence
within states is of e less its mean over the state's turns, where several
actions were taken.
"""

from typing import NamedTuple

import chex
import jax.numpy as jnp
import numpy as np

from agentrl import registry
from agentrl.advantage import chain
from agentrl.lab.tabular import policy
from agentrl.learner import update
from agentrl.signal import step_quality
from agentrl.types import Array, Batch, Signals

STREAM = 'step'  # whose credit is measured too, learned or not


class CellErrors(NamedTuple):
  """Mean error of every cell in an iteration."""

  mean: Array  # [states, A] f32; 0 where nothing was visited
  visits: Array  # [states, A] f32  turns of the batch


def names(learner: update.Algorithm) -> tuple[str, ...]:
  """Returns the step rewards there are: 'prm' (signal) and 'step' (stream)."""
  has = ['prm'] if _step_fields(learner) else []
  return (*has, *([STREAM] if STREAM in learner.streams else []))


def read(
  learner: update.Algorithm, batch: Batch, signals: Signals
) -> dict[str, Array]:
  """Returns {name: [B, K]} of `names`."""
  out = {}
  for field in _step_fields(learner):
    out['prm'] = signals[field]
  if STREAM in learner.streams:
    credit, _ = chain.stream(learner.streams[STREAM], batch, signals)
    out[STREAM] = credit.turn
  return out


def _step_fields(learner: update.Algorithm) -> list[str]:
  """Returns fields of signals that reward turns, [B, K], in their own units."""
  fields = (registry.get('signal', x).step for x in learner.spec.signal)
  return [x for x in fields if x]


def no_errors(
  learner: update.Algorithm, table: policy.TablePolicy
) -> dict[str, CellErrors]:
  """Returns the errors known before the first iteration: none."""
  empty = jnp.zeros((table.cells, table.actions))
  return dict.fromkeys(names(learner), CellErrors(empty, empty))


def measure(
  rewards: dict[str, Array], batch: Batch, last: dict[str, CellErrors]
) -> tuple[dict[str, Array], dict[str, CellErrors]]:
  """Measures correlation and persistence of every step reward: {measure: []}.

  Returns: measures, and the errors of this iteration for the next one.
  """
  terms = batch.turns.terms
  weight = batch.turns.valid.astype(jnp.float32)
  first = batch.rows.tokens[:, 0].reshape(weight.shape)
  out, errors = {}, {}
  for name, x in rewards.items():
    rho = step_quality.correlation(x, terms['truth'], weight)
    error = step_quality.error(x, terms['truth'], weight)
    now = cell_errors(error, weight, first, last[name].mean.shape)
    both = jnp.where(last[name].visits > 0, now.visits, 0)
    own, before = within_states(now), within_states(last[name])
    progress = step_quality.correlation(x, terms['progress'], weight)
    out |= {
      f'{name} correlation': rho,
      f'{name} progress correlation': progress,
      f'{name} persistence': step_quality.correlation(
        now.mean, last[name].mean, both
      ),
      f'{name} persistence within states': step_quality.correlation(
        own.mean, before.mean, jnp.where(before.visits > 0, own.visits, 0)
      ),
    }
    errors[name] = now
  return out, errors


def cell_errors(
  x: Array, weight: Array, cell: Array, shape: tuple[int, ...]
) -> CellErrors:
  """Averages x over the turns of every cell.

  Args:
    x, weight: [B, K]
    cell: [B, K] i32, state A + action
    shape: (states, A)
  """
  chex.assert_equal_shape([x, weight, cell])
  state, action = jnp.divmod(cell, shape[1])
  add = lambda y: jnp.zeros(shape).at[state, action].add(y)  # noqa: E731
  visits = add(weight)
  return CellErrors(add(weight * x) / jnp.maximum(visits, 1), visits)


def within_states(errors: CellErrors) -> CellErrors:
  """Centers errors on their state's mean; without states of one action."""
  mean, visits = errors
  total = jnp.sum(visits, axis=1, keepdims=True)
  state = jnp.sum(visits * mean, axis=1, keepdims=True)
  state /= jnp.maximum(total, 1)
  several = jnp.sum(visits > 0, axis=1, keepdims=True) > 1
  here = several & (visits > 0)
  return CellErrors(
    jnp.where(here, mean - state, 0), jnp.where(several, visits, 0)
  )


def persistence(x: np.ndarray) -> np.ndarray:
  """Averages over iterations [..., I] but the first, which has none before."""
  return x[..., 1:].mean(-1) if x.shape[-1] > 1 else x[..., 0]
