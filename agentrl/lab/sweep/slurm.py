"""The jobs of a sweep on a cluster, through submitit (Slurm, or local)."""

import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence

from agentrl.lab.sweep.local import Job
from agentrl.runtime import install


def pool(cluster: str | None, options_: str, workdir: str) -> Callable | None:
  """Makes `run` for `runs.run`; None without a cluster: this machine."""
  if not cluster:
    return None
  parameters, folder = options(options_), os.path.join(workdir, '.submitit')

  def submit(jobs, places, look):
    del places  # of this machine
    return run(jobs, cluster, folder, parameters, look)

  return submit


def options(text: str) -> dict[str, str | int]:
  """Parses 'slurm_partition=gpu,timeout_min=90' into submitit's parameters."""
  out: dict[str, str | int] = {}
  for part in filter(None, text.split(',')):
    name, sign, value = part.partition('=')
    if not sign:
      raise ValueError(
        f'--cluster_options: {part!r} is not NAME=VALUE; write e.g.'
        ' slurm_partition=gpu,timeout_min=90'
      )
    out[name] = int(value) if value.isdecimal() else value
  return out


def run(
  jobs: Sequence[Job],
  cluster: str,
  folder: str,
  parameters: Mapping[str, str | int],
  look: Callable[[list[str], dict[str, int]], None],
  every: float = 10.0,
) -> dict[str, int]:
  """Submits all jobs and waits for them: {name: exit status}, 1 for any error.

  The cluster bounds how many run at a time. Ctrl-C cancels those that wait or
  run; a killed parent leaves them alone, and the next start of the sweep has
  to wait until they have ended.

  Args:
    cluster: 'slurm', or 'local' for processes of this machine
    folder: of submitit's own files
    parameters: settings of submitit.AutoExecutor
  """
  try:
    import submitit
  except ImportError as error:
    raise ValueError(
      f'--cluster={cluster} needs submitit, which is not installed;'
      f' {install.command("cluster")}'
    ) from error
  executor = submitit.AutoExecutor(folder=folder, cluster=cluster)
  executor.update_parameters(**parameters)
  with executor.batch():
    sent = {
      job.name: executor.submit(submitit.helpers.CommandFunction(words(job)))
      for job in jobs
    }
  done: dict[str, int] = {}
  try:
    while len(done) < len(sent):
      for name, job in sent.items():
        if name not in done and job.done():
          done[name] = int(job.exception() is not None)
      look([name for name in sent if name not in done], done)
      if len(done) < len(sent):
        time.sleep(every)
  finally:
    for name, job in sent.items():
      if name not in done:
        job.cancel()
  return done


def words(job: Job) -> list[str]:
  """Builds the command with its variables, adding output to the job's log."""
  os.makedirs(os.path.dirname(job.log), exist_ok=True)
  script = f'exec "$@" >>{shlex.quote(job.log)} 2>&1'
  variables = [f'{k}={v}' for k, v in job.env.items() if k not in os.environ]
  return ['sh', '-c', script, 'sh', 'env', *variables, *job.command]
