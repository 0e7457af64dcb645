"""What a run keeps of its trajectories, and where it goes."""

import jax

from agentrl import kept, mesh, narrate
from agentrl import learner as learner_lib
from agentrl.dataset import logged
from agentrl.rollout import record as record_lib
from agentrl.rollout.luck import Stream, step_key
from agentrl.types import Attempts
from experiments import build, rollouts


def keeper(s: build.Setup, writer: logged.Writer) -> kept.Keeper:
  """Puts what a run keeps into its log."""

  def put(step: int, phase: str, what: kept.Kept) -> None:
    write(s, writer, step, phase, what)

  return kept.Keeper(put, writer.flush, every=s.config.log.every)


def write(s: build.Setup, writer: logged.Writer, step, phase, what) -> None:
  told = narrate.trajectories(what, s.tokenizer, step=step, phase=phase)
  for trajectory in told:
    writer.write(trajectory)


def updating(s: build.Setup, learner: learner_lib.Learner, group: int):
  """(state, batch) -> state, metrics, what is kept; to be jitted."""
  groups = s.config.log.groups

  def update(state, batch):
    new, told, seen = learner_lib.explained(learner, state, batch)
    if not groups:
      return new, told, None
    batch, signals, credit = seen
    key = step_key(state.key, Stream.LOG, state.step)
    some = kept.sample(
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
      record, rollouts.layout(s, record), attempts, version
    )
    batch = rollouts.score(s, batch)
    n = attempts.task.shape[0]
    return kept.sample(batch, {}, None, jax.random.key(0), groups=-1, size=n)

  return jax.jit(lambda *args: mesh.auto(f, None)(*args))


def first(n: int, record: record_lib.Record, attempts: Attempts):
  """The first n trajectories of what was played, host arrays."""
  return jax.tree.map(lambda x: x[:n], (record, attempts))
