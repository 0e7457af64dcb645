"""A comparison nobody ran: what a report holds, with numbers from a seed."""

import numpy as np

from agentrl.stats import intervals, paired

# name -> label, part, area at the best rate
TABLE = {
  'oprl': ('OPRL', 'method', 0.71),
  'rloo': ('RLOO', 'method', 0.64),
  'grpo': ('GRPO', 'method', 0.6),
  'ppo': ('PPO', 'method', 0.52),
  'gigpo': ('GiGPO', 'method', 0.66),
  'reinforce': ('REINFORCE', 'method', 0.44),
  'oprl_no_prm': ('OPRL without the PRM', 'ablation', 0.65),
  'oprl_frozen': ('OPRL, PRM frozen', 'ablation', 0.68),
  'oprl_random': ('OPRL, random PRM', 'control', 0.55),
  'rloo_long': ('RLOO, twice the steps', 'control', 0.67),
  'oprl_same': ('OPRL, other code', 'control', 0.71),
}
ARMS = tuple(TABLE)
LABELS, PARTS, BEST = (
  dict(zip(TABLE, column, strict=True))
  for column in zip(*TABLE.values(), strict=True)
)
METHODS = tuple(name for name in ARMS if PARTS[name] == 'method')


def _measure(label, unit, scale=1, digits=2):
  return dict(label=label, unit=unit, scale=scale, digits=digits)


MEASURES = {
  'area': _measure('area under the curve', 'points', 100, 1),
  'final': _measure('success at the end', 'points', 100, 1),
  'speed': _measure('log2 of steps to 50%', 'doublings'),
  'moves': _measure('moves of a solved episode', 'moves'),
}
RATES = (3e-5, 1e-4, 3e-4, 1e-3)
RUNS = 10


def made_up(seed: int = 0, settings: tuple[str, ...] = ('tuned', 'common')):
  """The report of six methods, five variants and two environments."""
  random = np.random.default_rng(seed)
  label = {
    'tuned': 'each arm at its own best learning rate',
    'common': 'all arms at the learning rate 3e-4',
  }
  envs = {
    'sparse': _env(random, 'Sokoban 6×6, reward at the end', label, settings),
    'dense': _env(random, 'Sokoban 6×6, a reward per box', label, settings[:1]),
  }
  rows = envs['sparse']['settings'][settings[0]]['comparisons']
  pairs = (5, 10, 20, 40)
  return {
    'format': 1,
    'name': 'oprl',
    'title': 'Does an online process reward model help?',
    'question': 'OPRL learns a process reward model from its own trajectories.'
    ' Is it better than RLOO at the same number of environment steps?',
    'protocol': [
      ['Pairs', '10: both arms of a pair share warm start and keys.'],
      ['Primary measure', 'area under the curve of held-out success.'],
      ['Tests', 'two-sided paired t, corrected over the five claims by Holm.'],
    ],
    'measures': MEASURES,
    'claims': _claims(rows),
    'envs': envs,
    'power': {
      'measure': 'area',
      'sd': 0.031,
      'rows': [
        dict(pairs=n, alpha=a, smallest=0.031 * k / n**0.5)
        for n in pairs
        for a, k in ((0.05, 3.1), (0.01, 4.0))
      ],
    },
    'spent': {'run_seconds': 5400.0, 'runs': 210, 'failed': 1},
    'commands': [
      'python -m experiments.compare'
      ' --study=configs/studies/oprl.py --workdir=runs/oprl_study'
    ],
    'versions': {'agentrl': '0.1.0', 'jax': '0.10.2', 'python': '3.12.3'},
    'seeds': {'pairs': list(range(RUNS)), 'tuning': [100, 101, 102]},
    'hardware': {'device': 'CPU, 8 simulated devices', 'cores': 2},
  }


def _claims(rows) -> list[dict]:
  """One of each verdict; the last one's baseline was never run."""
  said = [
    ('rloo', 0.05),
    ('gigpo', 0.2),
    ('oprl_frozen', 0.06),
    ('oprl_same', 0.1),
    ('no such', 0.1),
  ]
  out = []
  for baseline, claimed in said:
    found = [
      r
      for r in rows
      if r['baseline'] == baseline
      and r['arm'] == 'oprl'
      and r['measure'] == 'area'
    ]
    keys = ('n', 'mean', 'low', 'high', 'p', 'holm')
    kept = {k: found[0][k] for k in keys} if found else None
    text = f'OPRL gains {100 * claimed:.0f} points over {baseline}.'
    verdict = 'not measured'
    if found:
      known = {k: found[0][k] for k in paired.Paired._fields}
      verdict = paired.verdict(
        known['low'], known['high'], claimed, found[0]['holm']
      )
    out.append(
      dict(
        text=text,
        env='sparse',
        setting='tuned',
        arm='oprl',
        baseline=baseline,
        measure='area',
        claimed=claimed,
        found=kept,
        verdict=verdict,
      )
    )
  return out


def _env(random, label, labels, settings) -> dict:
  return {
    'label': label,
    'budget': {'env_steps': 15_000, 'tokens': 30_000},
    'tuning': {
      name: {
        'grid': [
          [
            r,
            (
              BEST[name]
              - 0.12 * np.log10(r / 3e-4) ** 2
              + 0.02 * random.standard_normal(3)
            ).tolist(),
          ]
          for r in RATES
        ],
        'best': 3e-4,
        'widened': int(name == 'ppo'),
        'edge': name == 'grpo',
      }
      for name in ARMS
    },
    'settings': {s: _setting(random, labels[s]) for s in settings},
  }


def _setting(random, label) -> dict:
  shared = 0.04 * random.standard_normal(RUNS)
  areas = {
    n: BEST[n] + shared + 0.03 * random.standard_normal(RUNS) for n in ARMS
  }
  areas['ppo'][9] = np.nan
  pairs = [('oprl', n) for n in METHODS[1:]]
  pairs += [('oprl', n) for n in ARMS[6:9]] + [('oprl', 'oprl_same')]
  pairs += [('rloo_long', 'rloo')]
  return {
    'label': label,
    'arms': {n: _arm(n, areas[n], random) for n in ARMS},
    'comparisons': [
      _paired(a, b, m, areas) for m in MEASURES for a, b in pairs
    ],
  }


def _of(measure: str, area: np.ndarray) -> np.ndarray:
  return {
    'area': area,
    'final': area + 0.1,
    'speed': 13 - 3 * area,
    'moves': 11 - 2 * area,
  }[measure]


def _paired(arm, baseline, measure, areas) -> dict:
  found = paired.compare(*(_of(measure, areas[n]) for n in (arm, baseline)))
  told = {'failed': list(found.failed), 'holm': min(1.0, 5 * found.p)}
  return dict(arm=arm, baseline=baseline, measure=measure) | (
    found._asdict() | told
  )


def _arm(name, area, random) -> dict:
  x = np.linspace(0, 15_000, 31)
  mean = (BEST[name] + 0.12) * (1 - np.exp(-x / 4000)) + 0.05
  mean = mean + 0.01 * random.standard_normal(x.size)
  curve = {
    'mean': mean.tolist(),
    'low': (mean - 0.03).tolist(),
    'high': (mean + 0.03).tolist(),
  }
  failed = name == 'ppo'
  told = {'PRM correlation with the truth': 0.12} if 'oprl' in name else {}
  return {
    'label': LABELS[name],
    'part': PARTS[name],
    'rate': 3e-4,
    'runs': RUNS,
    'failed': int(failed),
    'unstable': int(name == 'reinforce'),
    'seconds': 812.0,
    'env_steps': 1.5e5,
    'tokens': 3.2e5,
    'measures': {m: _summary(_of(m, area)) for m in MEASURES},
    'curve': {
      'env_steps': {'x': x.tolist(), **curve},
      'tokens': {
        'x': (2 * x).tolist(),
        **curve,
        'mean': (0.98 * mean).tolist(),
      },
    },
    'each': [
      {
        'seed': i,
        'failed': failed and i == 9,
        'unstable': name == 'reinforce' and i == 3,
        'measures': {
          m: None if failed and i == 9 else float(_of(m, area)[i])
          for m in MEASURES
        },
      }
      for i in range(RUNS)
    ],
    'told': told,
  }


def _summary(x) -> dict:
  x = x[np.isfinite(x)]
  low, high = intervals.mean_interval(x)
  iqm = paired.interquartile_mean(x)
  half = (high - low) / 2
  return dict(
    n=len(x),
    mean=float(x.mean()),
    low=low,
    high=high,
    median=float(np.median(x)),
    iqm=iqm,
    iqm_low=iqm - half,
    iqm_high=iqm + half,
    sd=float(x.std(ddof=1)),
  )


def small() -> dict:
  """One environment, one setting, two arms with two runs, one tuned."""
  whole = made_up(settings=('tuned',))
  env = whole['envs']['sparse']
  setting = env['settings']['tuned']
  arms = {n: setting['arms'][n] for n in ('oprl', 'oprl_frozen')}
  for arm in arms.values():
    arm['each'] = arm['each'][:2]
    for curve in arm['curve'].values():
      curve.update({k: v[:3] for k, v in curve.items()})
    arm['measures'] = {m: arm['measures'][m] for m in ('area', 'speed')}
  rows = [r for r in setting['comparisons'] if r['baseline'] in arms]
  setting = {**setting, 'arms': arms, 'comparisons': rows[:2]}
  tuning = {'oprl': env['tuning']['oprl']}
  env = {**env, 'tuning': tuning, 'settings': {'tuned': setting}}
  claims = whole['claims'][:1]
  return {**whole, 'envs': {'sparse': env}, 'claims': claims}
