"""Compares the first and the last evaluation of runs of several seeds.

  python -m experiments.sweep --config=configs/toolorchestra.py \
    --workdir=runs/tools --seeds=5
  python -m experiments.gains --runs=runs/tools \
    --metric=eval/total/price --metric=eval/success:0.03

Prints the means after the warm start and after RL, and the mean difference over
the runs with Student's interval. A margin after a colon asks whether the two
are equal to within it, by two one-sided tests.
"""

import math

from absl import flags

from agentrl import cli

_RUNS = flags.DEFINE_multi_string(
  'runs', [], 'Folder of a run or of a sweep; repeatable.'
)
_METRIC = flags.DEFINE_multi_string(
  'metric', ['eval/success'], 'METRIC or METRIC:MARGIN; repeatable.'
)


def main() -> None:
  from agentrl.study import gains

  runs = [x for folder in _RUNS.value for x in gains.finished(folder)]
  wanted = [_wanted(text) for text in _METRIC.value]
  print(gains.table([gains.gain(runs, *x) for x in wanted]), end='')


def _wanted(text: str) -> tuple[str, float]:
  metric, colon, margin = text.partition(':')
  try:
    value = float(margin) if colon else 0.0
  except ValueError:
    value = math.nan
  if not math.isfinite(value) or (colon and value <= 0):
    raise ValueError(
      f'--metric={text}: the margin {margin!r} is no number above 0; write for'
      ' instance eval/success:0.03'
    )
  return metric, value


if __name__ == '__main__':
  cli.run(main, required=('runs',))
