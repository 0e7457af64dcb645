"""Compares the first and the last evaluation of runs of several seeds.

  python -m experiments.sweep --config=configs/toolorchestra.py \
    --workdir=runs/tools --seeds=5
  python -m experiments.gains --runs=runs/tools \
    --metric=eval/total/price --metric=eval/success:0.03

Prints the means after the warm start and after RL, and the mean difference over
the runs with Student's interval. A margin after a colon asks whether the two
are equal to within it, by two one-sided tests: both p are small where they are,
the first alone where the second evaluation is not that much lower. With
--baseline the last evaluation is compared with that of other runs, by seed.
"""

import math

from absl import flags

from agentrl import cli

_RUNS = flags.DEFINE_multi_string(
  'runs', [], 'Folder of a run or of a sweep; repeatable.'
)
_BASELINE = flags.DEFINE_multi_string(
  'baseline', [], 'Folder of a run or of a sweep to compare with; repeatable.'
)
_METRIC = flags.DEFINE_multi_string(
  'metric', ['eval/success'], 'METRIC or METRIC:MARGIN; repeatable.'
)


def main() -> None:
  from agentrl.lab.study import gains

  runs, baselines = (
    [x for folder in folders for x in gains.runs_in(folder)]
    for folders in (_RUNS.value, _BASELINE.value)
  )
  wanted = [_wanted(text) for text in _METRIC.value]
  made = [gains.gain(runs, *x, baselines) for x in wanted]
  names = ('baseline', 'runs') if baselines else ('before', 'after')
  print(gains.table(made, names=names), end='')


def _wanted(text: str) -> tuple[str, float]:
  metric, colon, margin = text.partition(':')
  try:
    value = float(margin) if colon else 0.0
  except ValueError:
    value = math.nan
  if not math.isfinite(value) or (colon and value <= 0):
    raise ValueError(
      f'--metric={text} must have a margin > 0, such as eval/success:0.03, got'
      f' {margin!r}'
    )
  return metric, value


if __name__ == '__main__':
  cli.run(main, required=('runs',))
