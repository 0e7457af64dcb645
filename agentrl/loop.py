"""The loop, on one screen.

  task -> collect( rollout, reward ) -> curate -> signal -> advantage -> loss

A run is a list of stages that share one TrainState and one step counter. What
step s does depends on the state and on s only, so a run that was killed and
started again goes on as if nothing had happened.

The arrays of a state, of a batch and of metrics may all have a leading axis,
one place for each of several runs; the loop begins where the last of them is.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import counting
from agentrl.checkpoint import Checkpoints
from agentrl.log import metrics as metrics_lib
from agentrl.log.sample import Keeper, Kept
from agentrl.preemption import Stopped
from agentrl.types import SAMPLED, Batch, Metrics, TrainState

PATIENCE = 10  # updates in a row that were skipped: then the run stops


class Stage(NamedTuple):
  """Steps [start, end) of a run.

  begin: state -> state, when the stage is entered
  tasks: step -> what is played then, host arrays
  sample: (state, tasks, step) -> Batch
  observe: Batch -> metrics of what was collected
  update: (state, batch) -> state, metrics, what is kept for the log or None;
    donates the state
  """

  name: str
  start: int
  end: int
  begin: Callable[[TrainState], TrainState]
  tasks: Callable[[int], Any]
  sample: Callable[[TrainState, Any, int], Batch]
  observe: Callable[[Batch], Metrics]
  update: Callable[[TrainState, Batch], tuple[TrainState, Metrics, Kept | None]]

  def collect(self, state: TrainState, step: int) -> Batch:
    return self.sample(state, self.tasks(step), step)


class Watch(NamedTuple):
  """What looks at a run from outside.

  evaluate: (state, step) -> metrics of held-out tasks
  due: steps done -> whether to evaluate now
  save_every: steps between checkpoints
  stopping: raises Stopped when the run is to end; asked before each step
  """

  evaluate: Callable[[TrainState, int], dict[str, float]]
  due: Callable[[int], bool]
  save_every: int
  stopping: Callable[[], None] = lambda: None


class NotFiniteError(ArithmeticError):
  """Too many updates in a row had no finite gradient."""


def run(
  stages: Sequence[Stage],
  state: TrainState,
  watch: Watch,
  writer: metrics_lib.Writer,
  log: Keeper,
  checkpoints: Checkpoints,
  progress: metrics_lib.Progress,
  clock: Callable[[], float],
) -> TrainState:
  """Runs from state.step to the end of the last stage.

  Args:
    clock: seconds this run has been under way, over all its restarts
  Raises:
    Stopped: somebody wanted so; the state is saved.
    NotFiniteError: no update has been possible for a while; it is saved too.
  """
  late, skipped = metrics_lib.Late(state.step.shape), np.int32(0)

  def tell(row: tuple[int, dict[str, Any]] | None) -> None:
    nonlocal skipped
    if row is None:
      return
    step, scalars = row
    stage = next(s for s in stages if s.start < step <= s.end)
    scalars['time/seconds'] = clock()
    writer.write(step, scalars, phase=stage.name)
    progress.update(step, scalars)
    now = np.asarray(scalars.get('policy/skipped', 0)) == 1
    skipped = np.where(now, skipped + 1, 0)

  def save(step: int) -> None:
    tell(late.drain())
    writer.flush()
    log.flush()
    checkpoints.save(step, state, {'seconds': clock()})

  def put_away(step: int) -> None:
    if step > first and step % watch.save_every:
      save(step)

  def stop(step: int) -> None:
    put_away(step)
    raise NotFiniteError(
      f'{PATIENCE} updates in a row had no finite gradient at step {step}; the'
      ' state is saved; lower role.policy.lr or look at the last lines of'
      ' metrics.jsonl'
    )

  def leave(step: int, reason: Stopped) -> None:
    put_away(step)
    raise Stopped(
      f'stopped by {reason} after step {step}, the state is saved; the same'
      ' command goes on'
    )

  def evaluate(step: int) -> None:
    tell(late.drain())
    log.drain()
    scalars = watch.evaluate(state, step) | {'time/seconds': clock()}
    writer.write(step, scalars, phase='eval')
    progress.update(step, scalars)

  first = int(state.step.min())
  if first == 0 and watch.due(0):
    evaluate(0)
  for stage in stages:
    for step in range(max(stage.start, first), stage.end):
      if step == stage.start:
        state = stage.begin(state)
      try:
        watch.stopping()
        batch = stage.collect(state, step)
      except Stopped as reason:
        leave(step, reason)
      seen = stage.observe(batch)
      state, told, kept = stage.update(state, batch)
      done = step + 1
      tell(late.push(done, told | seen))
      log.push(done, stage.name, kept)
      if watch.due(done):
        evaluate(done)
      if done % watch.save_every == 0 or done == stages[-1].end:
        save(done)
      if np.any(skipped >= PATIENCE):
        stop(done)
  return state


@jax.jit
def observe(batch: Batch) -> Metrics:
  """What the rollout looked like, as (sum, weight) pairs.

  What it took (types.SAMPLED) is all that was sampled. Means are over what
  counts of the batch that is left; `unscored` is how many of its trajectories
  do not.
  """
  turns, known = batch.turns, counting.trajectories(batch)
  live = known.astype(jnp.float32)
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
  out['unscored'] = (jnp.sum(~known), one)
  out |= {name: (batch.sampled[name], one) for name in SAMPLED}
  for name in terms.keys() - {'tokens', 'entropy', 'env'}:
    out[name] = (jnp.sum(terms[name]), jnp.sum(each))
  return {f'rollout/{name}': pair for name, pair in out.items()}
