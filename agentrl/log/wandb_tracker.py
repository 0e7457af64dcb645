"""Weights & Biases tracker: mirrors a run's metrics.

It is optional: metrics.jsonl is the truth. Configure it with its environment
variables (WANDB_MODE=offline keeps everything on the machine).
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
  """Raises ValueError if the package is not installed."""
  try:
    importlib.import_module('wandb')
  except ImportError as error:
    raise ValueError(
      f'log.wandb needs Weights & Biases ({error}); run'
      f' {install.command("track")}, or leave log.wandb empty'
    ) from error


class Tracker:
  """Run of a W&B project, the same one after every restart.

  A restart repeats the steps since its checkpoint, bit for bit; the server
  ignores steps below its last.
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
      project: W&B project
      workdir: holds a file with the run's id, and the package's files
      resume_after: as in metrics.MetricsWriter
      config: settings shown beside the numbers
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
    """Sends the finite numbers of a step as one row."""
    self._run.log(dict(scalars), step=step)

  def close(self) -> None:
    """Waits until everything is sent."""
    self._run.finish()
