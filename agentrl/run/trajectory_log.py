"""What a run keeps of its trajectories, and where it goes."""

import jax

from agentrl import mesh
from agentrl.learner import update as update_lib
from agentrl.log import encode, sample, trajectories
from agentrl.rollout import record as record_lib
from agentrl.rollout.keys import Stream, step_key
from agentrl.run import build, collect
from agentrl.types import Attempts


def keeper(s: build.Setup, writer: trajectories.Writer) -> sample.Keeper:
  """Puts what a run keeps into its log."""

  def put(step: int, phase: str, what: sample.Kept) -> None:
    write(s, writer, step, phase, what)

  return sample.Keeper(put, writer.flush, every=s.config.log.every)


def write(
  s: build.Setup, writer: trajectories.Writer, step, phase, what
) -> None:
  told = encode.trajectories(what, s.tokenizer, step=step, phase=phase)
  for trajectory in told:
    writer.write(trajectory)


def updating(s: build.Setup, learner: update_lib.Learner, group: int):
  """(state, batch) -> state, metrics, what is kept; to be jitted."""
  groups = s.config.log.groups

  def update(state, batch):
    new, told, seen = update_lib.explained(learner, state, batch)
    if not groups:
      return new, told, None
    batch, signals, credit = seen
    key = step_key(state.key, Stream.LOG, state.step)
    some = sample.sample(
      batch,
      signals,
      credit if learner.wiring.advantage else None,
      key,
      groups=groups,
      size=batch.outcome.shape[0] if groups < 0 else groups * group,
    )
    return new, told, some

  return update


def of_record(s: build.Setup):
  """(record, attempts, version) -> all of them kept, compiled once."""

  def f(record, attempts, version):
    batch = record_lib.batch(
      record, collect.layout(s, record), attempts, version
    )
    batch = collect.score(s, batch)
    n = attempts.task.shape[0]
    return sample.sample(batch, {}, None, jax.random.key(0), groups=-1, size=n)

  return jax.jit(lambda *args: mesh.auto(f, None)(*args))


def first(n: int, record: record_lib.Record, attempts: Attempts):
  """The first n trajectories of what was played, host arrays."""
  return jax.tree.map(lambda x: x[:n], (record, attempts))
