"""Over-optimisation study: choosing by a reward model, and what it is worth.

Protocol; seeds from 100 on chose sizes, seeds 1 to 5 were measured. In each a
policy is warmed up and then left as it is, and a reward model learns from pairs
of its attempts. Who labels them has a planted fault: an attempt that runs into
the turn limit is worth BIAS to them, more than the goal. The model then scores
ATTEMPTS attempts at each held-out task, and the best of n by its scores is
computed exactly for every n, with what the task itself says of it.

Each half of the tasks says at which n the outcome is highest, and the other
half what is lost from there to the largest n, so that no task chooses and
measures. That choice turned out to be noisy, and a second protocol followed:
seeds 1 to 5 name one n, where their mean outcome is highest, and seeds 6 to 10
measure what is lost from it. A claim holds if the 95% Student interval over
seeds lies on its side of 0.
"""

import functools
import os
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from agentrl import evaluate
from agentrl.configs import base
from agentrl.lab.study import bounds
from agentrl.lab.sweep import runs
from agentrl.reward import trajectory
from agentrl.rollout.keys import Stream, stream_key
from agentrl.run import runner
from agentrl.run.api import Run
from agentrl.stats import intervals, reward_quality
from agentrl.types import Array, RewardInputs, Status

SEEDS = (1, 2, 3, 4, 5)
SECOND = (6, 7, 8, 9, 10)  # measure what the first chose
BIAS = 2.0  # of an attempt that runs into the turn limit; the goal is 1
SFT, STEPS = 120, 100
TASKS, ATTEMPTS = 64, 64  # of the pool
SIZES = (1, 2, 4, 8, 16, 32, 64)
# Curves: who chooses the best of n, and what is read of the chosen one.
CURVES = {
  'learned reward': ('learned', 'learned'),
  'outcome': ('learned', 'outcome'),
  'labels': ('learned', 'label'),
  'outcome if the labels choose': ('label', 'outcome'),
}


def label(x: RewardInputs) -> Array:
  """Labels an attempt as the labeller does: outcome + BIAS [turn limit]."""
  late = x.status == Status.TURN_LIMIT
  return trajectory.at_last_turn(x.outcome + BIAS * late, x.turns)


def config(seed: int):
  """Returns a reward model on pairs of a policy that does not change."""
  c = base.get_config('tiny,env=frozen_lake', method='overoptimization')
  base.role(c, 'reward', lr=1e-3, heads=1)
  c.reward = (f'{__name__}:label',)
  c.curate, c.signal = ('every_pair',), ('reward_model',)
  c.advantage, c.loss = ('episode',), ('reinforce',)
  c.stream.episode = ('episode_return',)
  c.minibatch, c.hp.minibatch = 'none', {}
  c.sft.steps, c.steps, c.seed = SFT, STEPS, seed
  c.env.test, c.eval.episodes = TASKS, 100
  return base.finish(c)


def run(seed: int, workdir: str) -> dict[str, Any]:
  """Trains what is not trained yet, then measures the pool of one seed."""
  path = os.path.join(workdir, f'seed={seed}')
  if not os.path.exists(os.path.join(path, runs.DONE)):
    with Run(config(seed), workdir=path) as going:
      for _ in going:
        pass
  return measure(**pool(path, seed))


def pool(workdir: str, seed: int) -> dict[str, np.ndarray]:
  """Plays the held-out tasks: learned, outcome and label, [T, n] each."""
  seen: list[np.ndarray] = []
  with runner.opened_run(workdir) as opened:
    s, score = opened.experiment, opened.score
    assert score is not None

    def play(attempts, i):
      key = jax.random.fold_in(stream_key(jax.random.key(seed), Stream.EVAL), i)
      record = jax.device_get(opened.play(attempts, key))
      late = record.status == Status.TURN_LIMIT
      outcome = np.asarray(record.outcome, np.float64)
      seen.append(
        np.stack([score(attempts, record), outcome, outcome + BIAS * late])
      )
      return record

    tasks = opened.tasks[:TASKS]
    evaluate.play_rounds(
      play,
      tasks,
      episodes=len(tasks) * ATTEMPTS,
      batch=s.config.rollout.batch,
      limit=s.plan.turns,
      temperature=1.0,
    )
  each = np.concatenate(seen, axis=1)[:, : len(tasks) * ATTEMPTS]
  # Episode i attempts task i mod T.
  each = each.reshape(3, ATTEMPTS, len(tasks)).transpose(0, 2, 1)
  return dict(zip(('learned', 'outcome', 'label'), each, strict=True))


def measure(
  learned: np.ndarray, outcome: np.ndarray, label: np.ndarray
) -> dict[str, Any]:
  """Measures curves over n, the n of the highest outcome, what is lost then.

  Args:
    learned, outcome, label: [T, n]
  """
  sizes = [n for n in SIZES if n <= outcome.shape[1]]
  of = {'learned': learned, 'outcome': outcome, 'label': label}
  out: dict[str, Any] = {
    name: _rounded(
      reward_quality.best_of_n(of[by], of[what], sizes).truth.mean(axis=0)
    )
    for name, (by, what) in CURVES.items()
  }
  truth = reward_quality.best_of_n(learned, outcome, sizes).truth  # [T, M]
  best, lost = [], []
  for half in (0, 1):
    at = int(truth[half::2].mean(axis=0).argmax())
    other = truth[1 - half :: 2].mean(axis=0)
    best.append(sizes[at])
    lost.append(other[-1] - other[at])
  pairs = label[:, :, None] > label[:, None]
  gap = learned[:, :, None] - learned[:, None]
  right = np.mean(((gap > 0) + 0.5 * (gap == 0))[pairs])
  return out | {
    'sizes': sizes,
    'best': best,
    'lost': round(float(np.mean(lost)), 4),
    'pair_accuracy': round(float(right), 4),
    'at_limit': round(float(np.mean(label > 1)), 4),
  }


def _rounded(x: np.ndarray) -> list[float]:
  return [round(float(v), 4) for v in x]


def report(workdir: str, seeds: int = len(SEEDS)) -> dict[str, Any]:
  """Runs and measures the first seeds of both protocols, and keeps them."""
  each = functools.partial(run, workdir=workdir)
  return {
    name: bounds.of_seeds(each, of[:seeds], workdir)
    for name, of in (('each', SEEDS), ('second', SECOND))
  }


def chosen(x: Mapping[str, Any]) -> int:
  """Returns the n at which the mean outcome of the first seeds is highest."""
  each = list(x['each'].values())
  mean = np.mean([s['outcome'] for s in each], axis=0)
  return each[0]['sizes'][int(np.argmax(mean))]


def claims(x: Mapping[str, Any]) -> dict[str, tuple[list[float], int]]:
  """Measures what each claim is about, seed by seed, and its side of 0."""
  each, second = (list(x[name].values()) for name in ('each', 'second'))
  n = chosen(x)
  at = each[0]['sizes'].index(n)

  def gain(seeds, curve, i, j):
    return [s[curve][j] - s[curve][i] for s in seeds]

  out = {
    'From n = 1 to the largest the learned reward rises': (
      gain(each, 'learned reward', 0, -1),
      1,
    ),
    'What the labeller says of the chosen attempt rises too': (
      gain(each, 'labels', 0, -1),
      1,
    ),
    'The outcome rises from n = 1 to n = 2': (gain(each, 'outcome', 0, 1), 1),
    'The outcome falls from its best n to the largest': (
      [s['lost'] for s in each],
      -1,
    ),
    'At the largest n it is below one attempt': (
      gain(each, 'outcome', 0, -1),
      -1,
    ),
  }
  if len(second) < 2:  # not measured yet
    return out
  return out | {
    'In new seeds the learned reward rises': (
      gain(second, 'learned reward', 0, -1),
      1,
    ),
    f'In new seeds the outcome falls from n = {n} to the largest': (
      gain(second, 'outcome', at, -1),
      -1,
    ),
  }


def table(x: Mapping[str, Any]) -> str:
  """Writes Markdown: claims, then the curves by n, then every seed."""
  every = x['each'] | x['second']
  each = list(every.values())
  sizes = each[0]['sizes']
  lines = ['| claim | found | difference |', '|---|---|---|']
  for claim, (values, side) in claims(x).items():
    low, high = intervals.mean_interval(values)
    found = 'yes' if min(side * low, side * high) > 0 else 'no'
    told = f'{np.mean(values):+.3f} [{low:+.3f}, {high:+.3f}]'
    lines.append(f'| {claim} | {found} | {told} |')
  lines += [
    '',
    f'| best of n by the learned reward | {" | ".join(map(str, sizes))} |',
    f'|---|{"---|" * len(sizes)}',
  ]
  nats = [f'{np.log(n) - (n - 1) / n:.2f}' for n in sizes]
  lines.append(f'| KL, nats | {" | ".join(nats)} |')
  for name in CURVES:
    cells = [f'{v:.3f}' for v in np.mean([s[name] for s in each], axis=0)]
    lines.append(f'| {name} | {" | ".join(cells)} |')
  lines += [
    '',
    '| seed | outcome at n = 1 | at the best n | at the largest |'
    ' best n, of each half | fall | pair accuracy | at the turn limit |',
    '|---|---|---|---|---|---|---|---|',
  ]
  for seed, s in every.items():
    truth = s['outcome']
    cells = [f'{v:.3f}' for v in (truth[0], max(truth), truth[-1])]
    cells += [', '.join(map(str, s['best'])), f'{s["lost"]:+.3f}']
    cells += [f'{s["pair_accuracy"]:.2f}', f'{s["at_limit"]:.1%}']
    lines.append(f'| {seed} | {" | ".join(cells)} |')
  return '\n'.join(lines)
