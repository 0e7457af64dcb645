"""Compaction study: what a summary is worth, and what training it adds.

Protocol; seeds from 100 on chose sizes and rates, seeds 0 to 4 were measured.
Every arm of a seed begins with one policy: a supervised warm start that has
seen summaries, cut short before it can carry a code. Then all arms have the
same number of updates, attempts and tokens of a summary, and the same lengths
of conversations. What is compared is `eval/success` after the last update, on
one panel of held-out tasks, as differences of the same seed. A claim holds if
the 95% Student interval of its paired difference lies above 0.
"""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentrl.lab.sweep import runs
from agentrl.log import metrics
from agentrl.stats import intervals, paired

CONFIG = 'configs/compaction_rl.py:env=carried_code'
ARMS = ('own', 'masked', 'shuffled', 'none')
SEEDS = 5
SIZES: Mapping[str, Any] = {
  'model.width': 32,
  'model.head_dim': 8,
  'model.mlp': 96,
  'rollout.batch': 64,
  'micro_batch': 64,
  'sft.batch': 64,
  'eval.episodes': 500,
  'env.test': 100,
}
WARM: Mapping[str, Any] = {'sft.steps': 200, 'sft.lr': 4e-3, 'steps': 0}
LEARN: Mapping[str, Any] = {'steps': 60, 'role.policy.lr': 2e-3}

CLAIMS: Mapping[str, tuple[str, str]] = {
  'What a summary says in its order is used': ('own', 'shuffled'),
  'The world needs a memory': ('own', 'none'),
  'Training the summary adds to training all else': ('own', 'masked'),
  'A summary that is not trained is used': ('masked', 'shuffled'),
}


def planned(
  workdir: str, seeds: int = SEEDS
) -> tuple[list[runs.SweepRun], list[runs.SweepRun]]:
  """Plans the warm starts, then the runs that learn from them."""
  warm = [
    runs.planned(
      f'warm/seed={i}', CONFIG, {**SIZES, **WARM, 'seed': i}, workdir
    )
    for i in range(seeds)
  ]
  learn = [
    runs.planned(
      f'{arm}/seed={i}',
      CONFIG,
      {
        **SIZES,
        **LEARN,
        'compaction.summary': arm,
        'seed': i,
        'init': start.workdir,
      },
      workdir,
    )
    for arm in ARMS
    for i, start in enumerate(warm)
  ]
  return warm, learn


def run(workdir: str, jobs: int = 1, seeds: int = SEEDS) -> bool:
  """Runs what is not finished; returns whether all of it succeeded.

  Args:
    jobs: processes at a time; the seeds of an arm are one
  """
  for part in planned(workdir, seeds):
    if any(runs.run(part, jobs, seeds).values()):
      return False
  return True


def report(workdir: str, seeds: int = SEEDS) -> dict[str, Any]:
  """Reads the runs: {'seeds', arm: {measure: [S]}}.

  Measures are success before and after, and the shares of turns and tokens.
  """
  out: dict[str, Any] = {'seeds': seeds}
  for arm in ARMS:
    each = [_measures(workdir, arm, i) for i in range(seeds)]
    out[arm] = {name: [x[name] for x in each] for name in each[0]}
  return out


def _measures(workdir: str, arm: str, seed: int) -> dict[str, float]:
  path = os.path.join(workdir, arm, f'seed={seed}', 'metrics.jsonl')
  rows = metrics.read(path)
  held = [row for row in rows if row['phase'] == 'eval']
  steps = [row for row in rows if row['phase'] == 'rl']
  summaries = [row.get('rollout/summary', 0.0) for row in steps]
  return {
    'before': round(held[0]['eval/success'], 4),
    'after': round(held[-1]['eval/success'], 4),
    'summaries': round(float(np.mean(summaries)), 4),
    'tokens': float(sum(row['rollout/tokens'] for row in steps)),
  }


def gap(x: Mapping[str, Any], a: str, b: str) -> paired.Paired:
  """Compares two arms after training, seed by seed."""
  return paired.compare(x[a]['after'], x[b]['after'])


def table(x: Mapping[str, Any]) -> str:
  """Markdown: success by arm, then claims with their differences."""
  lines = [
    '| arm | before, % | after, % | each seed, % | turns that are summaries |',
    '|---|---|---|---|---|',
  ]
  for arm in ARMS:
    of = x[arm]
    each = ', '.join(f'{100 * v:.0f}' for v in of['after'])
    share = np.mean(of['summaries'])
    cells = f'{_mean(of["before"])} | {_mean(of["after"])} | {each}'
    lines.append(f'| {arm} | {cells} | {share:.0%} |')
  lines += ['', '| claim | found | difference, points |', '|---|---|---|']
  for claim, (a, b) in CLAIMS.items():
    d = gap(x, a, b)
    mean, low, high = (100 * x for x in (d.mean, d.low, d.high))
    told = f'{a} - {b}: {mean:+.1f} [{low:+.1f}, {high:+.1f}]'
    lines.append(f'| {claim} | {"yes" if d.low > 0 else "no"} | {told} |')
  return '\n'.join(lines)


def _mean(values: Sequence[float]) -> str:
  low, high = intervals.mean_interval(list(values))
  mean = np.mean(values)
  return f'{100 * mean:.1f} [{100 * low:.1f}, {100 * high:.1f}]'


def written(path: str) -> dict[str, Any]:
  """Reads a report that was written."""
  with open(path, encoding='utf-8') as f:
    return json.load(f)
