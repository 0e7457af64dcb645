"""Training loop: collects a batch, updates the state, calls the hooks.

  task -> collect( rollout, reward ) -> curate -> signal -> advantage -> loss

What step s does depends on the state and on s only, so a run that was killed
and started again goes on as if nothing had happened.

The arrays of a state, of a batch and of metrics may all have a leading axis,
one place for each of several seeds; the loop begins at the step of the seed
that is furthest behind.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from agentrl import segment
from agentrl.learner import sizes
from agentrl.learner import update as update_lib
from agentrl.learner.algorithm import Algorithm
from agentrl.ops import counting
from agentrl.types import SAMPLED, Batch, Metrics, TrainState

# (steps done, state, metrics, aux) -> None, after every step
Hook = Callable[[int, TrainState, Metrics, Any], None]


class Sampler(Protocol):
  """Makes the batch of every step."""

  def task(self, state: TrainState, step: int) -> Any:
    """Returns what to attempt, host arrays."""

  def collect(
    self, state: TrainState, attempts: Any, step: int
  ) -> tuple[Batch, Metrics]:
    """Plays and rewards the attempts; returns what is measured of them too."""


def train(
  alg: Algorithm,
  sampler: Sampler,
  state: TrainState,
  *,
  steps: int,
  hooks: Sequence[Hook] = (),
  update: Callable = update_lib.update,
) -> TrainState:
  """Runs the loop from state.step to `steps`, and returns the last state.

  The entry point of programs with an `Algorithm` and a `Sampler` of their own;
  `agentrl.Run` makes both from a config. A saved state goes on at its step. To
  act between steps, pass hooks or loop over `iterate`.

    state = loop.train(alg, sampler, state, steps=300, hooks=[log])

  Args:
    hooks: called after every step, in their order
    update: as of `iterate`
  """
  last = state
  for _, last, _ in iterate(  # noqa: B007
    alg, sampler, state, steps=steps, hooks=hooks, update=update
  ):
    pass
  return last


def iterate(
  alg: Algorithm,
  sampler: Sampler,
  state: TrainState,
  *,
  steps: int,
  hooks: Sequence[Hook] = (),
  before_collect: Callable[[], None] = lambda: None,
  before_update: Callable[[], None] = lambda: None,
  update: Callable = update_lib.update,
) -> Iterator[tuple[int, TrainState, Metrics]]:
  """Yields (steps done, state, metrics) after every step of the loop.

  Dispatch is asynchronous: `update` returns before the device is done, so that
  the host makes the next attempts meanwhile. A sampler inside jit returns early
  too, but an update waits for the sizes of its batch (learner/sizes.py).
  A hook that reads an array (`float`, `jax.device_get`) waits for its step, and
  the device idles until the next is dispatched; `hooks.LogMetrics` keeps the
  metrics of a step and reads them one step late. What is yielded may not have
  been computed yet either, and the next step donates the state: copy what is to
  be kept.

  Args:
    hooks: called after every step, in this order
    before_collect, before_update: called when either is next
    update: (alg, state, batch) -> state, metrics, aux; donates the state
  """
  update = jit_update(alg, update)
  for step in range(int(state.step.min()), steps):
    attempts = sampler.task(state, step)  # what to attempt
    before_collect()
    batch, observed = sampler.collect(state, attempts, step)  # rollout, reward
    before_update()
    state, metrics, aux = update(state, batch)  # curate .. loss, memory
    metrics |= observed
    for hook in hooks:  # log, evaluate, checkpoint, stop
      hook(step + 1, state, metrics, aux)
    yield step + 1, state, metrics


def jit_update(alg: Algorithm, update: Callable = update_lib.update):
  """Compiles (state, batch) -> state, metrics, aux; donates the state.

  The learner's own is compiled for a few sizes of batches (learner/sizes.py).
  """
  if update is update_lib.update:
    return sizes.jit_update(alg)
  return jax.jit(functools.partial(update, alg), donate_argnums=0)


@jax.jit
def observe(batch: Batch) -> Metrics:
  """Measures a rollout, as (sum, weight) pairs.

  Counts of types.SAMPLED are of everything that was sampled. Means are over the
  trajectories that count, of those left in the batch; `unscored` is the number
  of the others; of what was not played, where its last turn was not scored.
  """
  turns, mask = batch.turns, counting.trajectories(batch)
  live = mask.astype(jnp.float32)
  whole, each = (
    counting.counted(batch, unit).astype(jnp.float32)
    for unit in ('trajectory', 'turn')
  )
  count, terms = jnp.sum(live), {k: x * each for k, x in turns.terms.items()}
  out = {
    'success': (jnp.sum(live * (batch.outcome > 0.5)), count),
    'return': (jnp.sum(turns.reward * whole), count),
    'turns': (jnp.sum(whole), count),
    'entropy': (jnp.sum(terms['entropy']), jnp.sum(terms['tokens'])),
  }
  one = jnp.ones(())
  lost = jnp.any(segment.last_turn(turns.valid) & ~turns.scored, axis=1)
  lost = jnp.where(counting.played(batch), ~mask, lost)
  out['unscored'] = (jnp.sum(lost), one)
  out |= {name: (batch.sampled[name], one) for name in SAMPLED}
  elsewhere = {'tokens', 'entropy', 'env'} | counting.late_terms(terms)
  for name in terms.keys() - elsewhere:
    out[name] = (jnp.sum(terms[name]), jnp.sum(each))
  return {f'rollout/{name}': pair for name, pair in out.items()}


@functools.partial(jax.jit, static_argnames='measures')
def observe_components(
  batch: Batch, measures: tuple[Callable[[Batch], Metrics], ...]
) -> Metrics:
  """Measures what components of a method ask for, as (sum, weight) pairs.

  Args:
    measures: see `registry.metrics`
  """
  out: Metrics = {}
  for measure in measures:
    out |= measure(batch)
  return {f'rollout/{name}': pair for name, pair in out.items()}
