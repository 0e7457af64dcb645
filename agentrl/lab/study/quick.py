"""Quick comparison: methods trained on the same seeds, exploratory.

Nothing is claimed beforehand and nothing is tuned: every method trains at its
config's own learning rate.
"""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.configs.config import Config
from agentrl.lab.sweep import runs
from agentrl.lab.sweep.runs import SweepRun
from agentrl.report.study import page
from agentrl.run import config_file
from agentrl.run import workdir as workdir_lib
from agentrl.runtime import storage

EVALUATIONS = 6  # of a run that would evaluate at its ends only
# What a warm start depends on.
_WARM = ('model', 'lora', 'sft', 'env', 'rollout')
# Fields of an environment that leave its held-out success comparable.
_TRAINING_ONLY = (
  'env.train',
  'env.test',
  'env.demonstrate',
  # Of the reward, which success does not read.
  'env.reward',
  'env.invalid',
  'env.question_cost',
  'env.price_cost',
  'env.safety_cost',
)


def plan(
  methods: Sequence[str],
  arg: str,
  changes: Mapping[str, Any],
  seeds: int,
  workdir: str,
) -> tuple[list[SweepRun], list[SweepRun]]:
  """Plans (warm starts, runs) of every method on the same seeds, all checked.

  Methods with the same model, environment and warm start share the warm starts
  of the first; any other has its own. A config that evaluates at its ends only
  evaluates EVALUATIONS times, so that there is a curve.
  """
  check_folder(workdir)
  names = [os.path.splitext(os.path.basename(m))[0] for m in methods]
  for method, name in zip(methods, names, strict=True):
    if ':' in method:
      own = method.partition(':')[2]
      raise ValueError(
        f'--methods={method}: the argument is common to all methods; write'
        f' --arg={own}'
      )
    if names.count(name) > 1:
      raise ValueError(f'--methods has {name!r} twice; name every method once')
  if len(names) < 2:
    raise ValueError(
      f'--methods={",".join(methods)} is one method; name two or more, the'
      ' first is the one that others are compared with'
    )
  if wrong := {'seed', 'init'} & changes.keys():
    raise ValueError(
      f'--set={min(wrong)}=... is chosen by the comparison; leave it out'
    )
  paths = {
    n: f'{m}:{arg}' if arg else m for n, m in zip(names, methods, strict=True)
  }
  configs = {
    name: config_file.change(config_file.load(path), changes)
    for name, path in paths.items()
  }
  check_environments(configs)
  first = configs[names[0]]
  warm, out = [], []
  for seed in range(seeds):
    start = os.path.join('warm', str(seed))
    for name, c in configs.items():
      mine = {**changes, 'seed': seed}
      if not c.eval.every:
        mine.setdefault('eval.every', max(1, c.steps // EVALUATIONS))
      if c.sft.steps and all(c[part] == first[part] for part in _WARM):
        mine['init'] = os.path.join(workdir, start)
      where = os.path.join(name, str(seed))
      out.append(runs.planned(where, paths[name], mine, workdir))
    if first.sft.steps:
      zero = {**changes, 'seed': seed, 'steps': 0}
      warm.append(runs.planned(start, paths[names[0]], zero, workdir))
  return warm, out


def check_environments(configs: Mapping[str, Config]) -> None:
  """Checks that the arms are evaluated in one environment.

  How many tasks there are, which of them are demonstrated and how training
  rewards them may differ.

  Raises:
    ValueError: a field of the environment differs; `env.name` is named alone,
      because other environments have other fields.
  """
  first, *others = configs
  for name in others:
    differing = {
      field: values
      for field, *values in workdir_lib.differences(
        configs[first], configs[name]
      )
      if field.startswith('env.') and field not in _TRAINING_ONLY
    }
    if differing:
      field, (one, other) = next(iter(differing.items()))  # env.name first
      raise ValueError(
        f'{field} must be the same in all runs, got {one!r} in {first} and'
        f' {other!r} in {name}; success in different environments cannot be'
        ' compared'
      )


def train(
  warm: Sequence[SweepRun],
  plan: Sequence[SweepRun],
  places: int,
  together: int,
) -> tuple[list[str], list[str]]:
  """Runs what is not finished: (folders of the runs that are, names of others).

  Args:
    places: processes at a time
    together: seeds of a method in one process
  """
  for part in (warm, plan):
    # Without its warm start a run cannot begin.
    begun = {r.workdir for r in warm if runs.finished(r)}
    ready = [r for r in part if part is warm or r.config.init in {'', *begun}]
    if not all(map(runs.finished, ready)):
      runs.run(ready, places, together)
  done = [r.workdir for r in plan if runs.finished(r)]
  return done, [r.name for r in plan if not runs.finished(r)]


def check_folder(workdir: str) -> None:
  """Raises ValueError for a folder with the report of a study."""
  path = os.path.join(workdir, page.JSON)
  if os.path.exists(path):
    there = json.loads(storage.read(storage.path(path)))
    if 'exploratory' not in there:
      raise ValueError(
        f'{path} is the report of a study; write this one to another --workdir'
      )
