"""A comparison from its study file to its report on disk."""

import importlib.metadata
import os
import platform
import shlex
import sys
from collections.abc import Mapping
from typing import Any

import jax

from agentrl import install
from agentrl.report.study import page
from agentrl.study import analysis, execute, spec, tabular_runner
from agentrl.study.spec import Study
from agentrl.sweep import runs
from docs.generate import results

PACKAGES = ('jax', 'flax', 'optax', 'numpy', 'scipy')


def load(path: str) -> Study:
  """The study of a file, checked."""
  module = runs.load(path)
  if 'get_study' not in vars(module):
    raise ValueError(f'{path} has no get_study(); see configs/studies/oprl.py')
  study = module.get_study()
  spec.check(study)
  return study


def run(
  s: Study, workdir: str, places: int, together: int = 1
) -> dict[str, Any]:
  """Everything that is not done yet, then the report."""
  if s.by == 'tabular':
    tabular_runner.check_all(s)
    # Programs are small and run once: most of the time is compilation.
    jax.config.update('jax_disable_most_optimizations', True)
    runner = tabular_runner.runner(s, workdir)
  else:
    execute.check_all(s, workdir)
    runner = execute.trained(s, workdir, places, together)
  execute.keep_protocol(s, workdir)
  return analysis.report(s, runner)


def sign(report: dict[str, Any], s: Study, path: str, workdir: str) -> None:
  """Adds how it was made: protocol, command, versions, hardware."""
  command = ('python', '-m', 'experiments.compare', f'--study={path}',
             f'--workdir={workdir}')  # fmt: skip
  report |= {
    'protocol': spec.protocol(s),
    'commands': [shlex.join(command)],
    'versions': {'agentrl': install.metadata()['Version']}
    | {p: importlib.metadata.version(p) for p in PACKAGES}
    | {'python': platform.python_version()},
    'hardware': hardware(),
  }


def hardware() -> Mapping[str, Any]:
  device = jax.devices()[0]
  return {
    'device': f'{len(jax.devices())} x {device.device_kind}',
    'cores': os.cpu_count(),
    'system': f'{sys.platform} {platform.machine()}',
  }


def publish(report: Mapping[str, Any], workdir: str) -> str:
  """Writes report.html and report.json; what to print of them."""
  page.write(report, workdir)
  lines = [results.tables(report), '']
  lines += [
    f'written: {os.path.join(workdir, name)}' for name in (page.HTML, page.JSON)
  ]
  return '\n'.join(lines)
