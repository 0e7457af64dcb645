"""Weights & Biases tracker: sends a run's metrics there as well.

Nothing needs it: metrics.jsonl is the truth. Its own settings are those of
its own variables (WANDB_MODE=offline keeps everything on the machine).
"""

import importlib
import os
import re
import uuid
from collections.abc import Mapping
from typing import Any

from agentrl.runtime import install, storage

ID = 'wandb_id'


def installed() -> None:
  """Raises ValueError if the package is not there."""
  try:
    importlib.import_module('wandb')
  except ImportError as error:
    raise ValueError(
      f'log.wandb asks for Weights & Biases, which is not to be had ({error});'
      f' {install.command("track")}, or leave log.wandb empty'
    ) from error


class Tracker:
  """One run of a project there, the same one after every restart.

  A restart repeats the steps since its checkpoint. They were sent before and
  are equal bit for bit; the server ignores a step below its last.
  """

  def __init__(
    self,
    project: str,
    workdir: str | os.PathLike,
    *,
    resume_after: int | None,
    config: Mapping[str, Any],
  ):
    """Joins the run of `workdir`; with resume_after=None begins a new one.

    Args:
      project: its name there
      workdir: holds the run's id, in a file, and what the package writes
      resume_after: as in metrics.MetricsWriter
      config: settings to be shown beside the numbers
    """
    installed()
    wandb = importlib.import_module('wandb')
    folder = storage.path(workdir)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ID
    if path.exists() and (
      path.is_dir() or not re.fullmatch(rb'[0-9a-f]{32}\n', path.read_bytes())
    ):
      storage.set_aside(path, 'names no run')
    if resume_after is None or not path.exists():
      storage.write(path, uuid.uuid4().hex + '\n')
    # create_new: runs trained at once in a process each have their own.
    self._run = wandb.init(
      project=project,
      name=storage.path(storage.absolute(workdir)).name,
      id=path.read_bytes().decode().strip(),
      dir=None if storage.in_bucket(folder) else str(folder),
      config=dict(config),
      resume='allow',
      reinit='create_new',
    )

  def add(self, step: int, scalars: Mapping[str, float]) -> None:
    """Sends finite numbers; those of one step are one row there."""
    self._run.log(dict(scalars), step=step)

  def close(self) -> None:
    """Returns when all is sent."""
    self._run.finish()
