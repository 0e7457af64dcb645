"""Compares methods: quickly and exploratory, or as a study with claims.

  python -m experiments.compare --methods=grpo,gigpo --workdir=runs/quick
  python -m experiments.compare runs/a runs/b runs/c --workdir=runs/compared
  python -m experiments.compare --study=FILE --workdir=runs/studies/oprl

--methods trains every method at its own defaults on the same seeds; RUN... are
there, and without --workdir only the table is printed. Repeat it to resume.
"""

import os
import sys

from absl import flags

from agentrl import cli
from agentrl.domain import COUNT, Path
from agentrl.lab.sweep import grid
from agentrl.runtime.lock import Lock

_STUDY = cli.flag('study', None, Path(empty=False), 'File with get_study()')
_METHODS = flags.DEFINE_list('methods', [], 'Configs, e.g. grpo,gigpo.')
_ARG = flags.DEFINE_string('arg', '', "All methods' argument, e.g. tiny.")
_SET = flags.DEFINE_multi_string('set', [], 'PATH=VALUE of all; repeatable.')
_SEEDS = cli.flag('seeds', 3, COUNT, 'Seeds of every method')
_WORKDIR = cli.workdir_flag('Folder for the runs and the report')
_JOBS = cli.flag('jobs', os.cpu_count(), COUNT, 'Processes to run in parallel')
_TOGETHER = cli.flag('together', 1, COUNT, 'Seeds of an arm per process')


def main(*paths: str) -> None:
  modes = {'--study': _STUDY.value, '--methods': _METHODS.value, 'RUN': paths}
  given = ' and '.join(name for name, value in modes.items() if value)
  if given not in modes:
    cli.fail(f'give --study, --methods or RUN...; here: {given or "none"}')
  alien = [f'--{x.name}' for x in (_ARG, _SET, _SEEDS) if x.present]
  if alien and given != '--methods':
    cli.fail(f'{alien[0]} is for --methods, not for {given}; leave it out')
  if not (paths or _WORKDIR.value):
    cli.fail('the flag --workdir is missing; --help lists all flags')
  from agentrl.lab.study import quick, quick_report, run  # import jax

  workdir = os.path.abspath(_WORKDIR.value) if _WORKDIR.value else ''
  pool, missing = (_JOBS.value, _TOGETHER.value), ()
  if given == '--study':
    study = run.load(_STUDY.value)
    with Lock(workdir):  # two would take each other's runs for failed
      report = run.run(study, workdir, *pool)
  else:
    if given == '--methods':
      common = _ARG.value, grid.changes(_SET.value), _SEEDS.value
      plan = quick.plan(_METHODS.value, *common, workdir)
      with Lock(workdir):
        paths, missing = quick.train(*plan, *pool)
    report = quick_report.make(quick_report.read(paths), missing)
  print(run.publish(run.sign(report, *sys.argv[1:]), workdir))


if __name__ == '__main__':
  cli.run(main, operands=('[RUN...]',))
