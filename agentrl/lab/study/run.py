"""Runs a comparison from its study file to its report on disk."""

import importlib.metadata
import os
import platform
import shlex
import sys
from collections.abc import Mapping
from typing import Any

import jax

from agentrl.lab.study import analysis, execute, panel, spec, tabular_runner
from agentrl.lab.study import quick as quick_lib
from agentrl.lab.study.spec import Study
from agentrl.lab.sweep import runs
from agentrl.report.study import page, tables
from agentrl.runtime import install

PACKAGES = ('jax', 'flax', 'optax', 'numpy', 'scipy')


def load(path: str) -> Study:
  """Returns the study of a file, checked."""
  module = runs.load(path)
  if 'get_study' not in vars(module):
    raise ValueError(f'{path} has no get_study(); see configs/studies/oprl.py')
  study = module.get_study()
  spec.check(study)
  return study


def run(
  s: Study, workdir: str, places: int, together: int = 1
) -> dict[str, Any]:
  """Runs everything that is not done yet, then writes the report."""
  if s.by == 'tabular':
    tabular_runner.check_all(s)
    tabular_runner.compile_little()
    runner = tabular_runner.runner(s, workdir, places)
  else:
    execute.check_all(s, workdir)
    runner = execute.trained(s, workdir, places, together)
  execute.keep_protocol(s, workdir)
  fixed = {'panel': panel.keep(s, workdir), 'protocol': spec.protocol(s)}
  return analysis.report(s, runner) | fixed


def sign(report: dict[str, Any], *flags: str) -> dict[str, Any]:
  """Returns the report with how it was made: command, versions, hardware."""
  command = 'python', '-m', 'experiments.compare', *flags
  return report | {
    'commands': [shlex.join(command)],
    'versions': {'agentrl': install.metadata()['Version']}
    | {p: importlib.metadata.version(p) for p in PACKAGES}
    | {'python': platform.python_version()},
    'hardware': {
      'device': f'{len(jax.devices())} x {jax.devices()[0].device_kind}',
      'cores': os.cpu_count(),
      'system': f'{sys.platform} {platform.machine()}',
    },
  }


def publish(report: Mapping[str, Any], workdir: str) -> str:
  """Writes report.html and report.json; returns what to print of a report.

  Args:
    workdir: where to; '': nowhere
  """
  quick = 'exploratory' in report
  text = tables.plain(report) if quick else tables.markdown(report)
  if not workdir:
    return f'{text}\n\n--workdir=FOLDER writes {page.HTML} with the curves'
  if quick:
    quick_lib.check_folder(workdir)
  page.write(report, workdir)
  files = (os.path.join(workdir, name) for name in (page.HTML, page.JSON))
  return '\n'.join([text, '', *map('written: {}'.format, files)])
