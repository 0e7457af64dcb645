"""Files of a run: metrics, trajectories and checkpoints, a folder a seed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agentrl.configs.config import to_dict
from agentrl.judge.panel import Judgement
from agentrl.log import metrics, trajectories, wandb_tracker
from agentrl.run import describe, seed_axis, trajectory_log
from agentrl.run import workdir as workdir_lib
from agentrl.run.experiment import Experiment
from agentrl.runtime import checkpoint, distributed


class RunOutputs:
  """Writes each seed's part of what the loop has, once it has caught up.

  A seed that was resumed after a later step than the others waits for them;
  until then nothing of it is written.
  """

  def __init__(
    self,
    axis: seed_axis.SeedAxis,
    experiments: Sequence[Experiment],
    workdirs: Sequence[str],
    checkpoints: Sequence[checkpoint.Checkpoints],
    resumed: Sequence[int | None],
    checks: Sequence[Callable[[], None]],
    verdicts: Callable[[str], Sequence[Judgement]] = lambda key: (),
    kinds: Mapping[str, str] | None = None,
  ):
    """Opens the files.

    Args:
      resumed: the step each seed was resumed after
      verdicts: of judges on a trajectory, by its key
      kinds: of the stages, by name; rows have both where they differ
    """
    self._kinds = kinds or {}
    self._verdicts = verdicts
    self._axis, self._experiments = axis, experiments
    self._checkpoints, self._resumed = checkpoints, resumed
    first = distributed.first()
    self._writers, self._logs = [], []
    each = zip(experiments, workdirs, resumed, checks, strict=True)
    for s, w, at, check in each:
      if first:
        workdir_lib.keep_config(s.config, w)
      self._writers.append(open_writer(s, w, at, check))
      self._logs.append(
        trajectories.TrajectoryWriter(
          w, resume_after=at, active=first, check=check
        )
      )

  def write(self, step: int, scalars: Mapping[str, Any], *, phase: str) -> None:
    for i in self._seeds_at(step, phase):
      mine = seed_axis.of_seed(scalars, i)
      kind = self._kinds.get(phase, phase)
      stage = '' if kind == phase else phase
      self._writers[i].write(step, mine, phase=kind, stage=stage)

  def log(self, step: int, phase: str, sample) -> None:
    """Writes sampled trajectories, host arrays."""
    for i in self._seeds_at(step, phase):
      mine = self._axis.seed(sample, i)
      log = self._logs[i]
      s = self._experiments[i]
      kind = self._kinds.get(phase, phase)
      trajectory_log.write(s, log, step, kind, mine, self._verdicts)

  def flush(self) -> None:
    """Returns when all that was written is on disk."""
    for writer in self._writers:
      writer.flush()
    for log in self._logs:
      log.flush()

  def save(self, step: int, state: Any, meta: dict[str, Any]) -> None:
    self.flush()
    states = self._axis.unstack(state)
    for i in self._seeds_at(step):
      self._checkpoints[i].save(step, states[i], meta)

  def close(self) -> None:
    for writer in self._writers:
      writer.close()
    for log in self._logs:
      log.close()

  def evaluated(self, step: int) -> bool:
    """Returns whether every seed has a row of the evaluation at this step."""
    mine = lambda: all(x.evaluated(step) for x in self._writers)  # noqa: E731
    return all(distributed.allgather_objects(mine))

  def _seeds_at(self, step: int, phase: str = '') -> Iterator[int]:
    """Yields the seeds that do not wait at this step.

    Nor does one that was resumed there and lacks the evaluation, which a stop
    had cut.
    """
    for i, at in enumerate(self._resumed):
      cut = phase == 'eval' and step == at
      cut = cut and not self._writers[i].evaluated(step)
      if at is None or step > at or cut:
        yield i


def open_writer(
  s: Experiment, workdir: str, resumed, check=lambda: None
) -> metrics.MetricsWriter:
  """Opens what writes the run's metrics, with the tracker that it wants."""
  c, first = s.config, distributed.first()
  tracker = None
  if c.log.wandb and first:
    tracker = wandb_tracker.Tracker(
      c.log.wandb, workdir, resume_after=resumed, config=to_dict(c)
    )
  return metrics.MetricsWriter(
    workdir,
    resume_after=resumed,
    header=describe.header(s, workdir),
    active=first,
    tracker=tracker,
    check=check,
  )
