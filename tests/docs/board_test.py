"""docs/BOARD.md: every method is on it, or stands below with the reason."""

import pathlib

from agentrl.lab.study import run as study_run
from agentrl.run import config_file
from docs.generate import board, results

ARMS = ('oprl', 'grpo', 'gigpo')


def report():
  """Gains by arm and world: one stands out after Holm, one does not."""
  gains = {'oprl': (0.05, 0.001), 'gigpo': (-0.02, 0.2)}
  rows = [
    {'arm': arm, 'baseline': 'grpo', 'measure': measure, 'mean': mean}
    | {'low': mean - 0.01, 'high': mean + 0.01, 'holm': holm}
    for arm, (mean, holm) in gains.items()
    for measure in ('final', 'area')
  ]
  arms = {
    arm: {'config': f'configs/{arm}.py', 'told': {board.ERROR: 0.25}}
    for arm in ARMS
  }
  arms['oprl']['told'] = {}
  env = {
    'label': 'A world: small',
    'budget': {'env_steps': 6000},
    'settings': {'tuned': {'arms': arms, 'comparisons': rows}},
  }
  seeds = {'pairs': [1, 2, 3]}
  return {'envs': {'a': env}, 'seeds': seeds, 'panel': 'f' * 64}


def test_methods_by_their_gain(monkeypatch):
  monkeypatch.setattr(
    board, 'absent', lambda arms: {'they are not': ['x', 'y']}
  )
  lines = board.page(report()).splitlines()
  assert '- `x`, `y`: they are not' in lines
  table = [x for x in lines if x.startswith('| [')]
  assert table == [
    '| [oprl](methods/oprl.md) | **+5.0 [+4.0, +6.0]** | – |'
    ' `policy`, `prm`; trained: `prm` 1 |',
    '| [grpo](methods/grpo.md) | reference | 0.25 | `policy` |',
    '| [gigpo](methods/gigpo.md) | -2.0 [-3.0, -1.0] | 0.25 | `policy` |',
  ]
  assert '6,000 environment' in board.page(report()).replace('\n', ' ')


def test_every_method_is_an_arm_or_has_a_reason():
  arms = {a.name for a in study_run.load('configs/studies/board.py').arms}
  others = [x for names in board.absent(arms).values() for x in names]
  assert sorted([*arms, *others]) == sorted(config_file.methods())
  assert not arms & board.REASONS.keys()


def test_the_page_is_up_to_date():
  published = results.reports('docs/results')
  if board.NAME in published:
    page = pathlib.Path('docs', board.PAGE).read_text(encoding='utf-8')
    assert page == board.page(published[board.NAME])
