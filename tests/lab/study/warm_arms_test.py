"""Arms from shared warm starts: their plan, their report, their table."""

import json

import pytest

from agentrl.lab.papers.compaction.study import DESIGN
from agentrl.lab.study import warm_arms
from agentrl.lab.sweep import runs


def test_arms_share_all_but_their_own_changes(tmp_path):
  """Arms of a seed share the start; all arms and seeds share the rest."""
  warm, learn = warm_arms.planned(DESIGN, str(tmp_path), seeds=2)
  assert [x.name for x in warm] == ['warm/seed=0', 'warm/seed=1']
  assert len(learn) == 2 * len(DESIGN.arms)
  own = {'compaction.summary', 'seed', 'init'}
  rest = {
    json.dumps({k: v for k, v in x.changes.items() if k not in own})
    for x in learn
  }
  assert len(rest) == 1
  for x in learn:
    assert x.config.init == warm[x.config.seed].workdir
    assert x.config.steps == DESIGN.learn['steps']
  # The seeds of an arm are one process, and no two arms are.
  parts = runs.groups(learn, 2)
  assert [{x.config.compaction.summary for x in part} for part in parts] == [
    {arm} for arm in DESIGN.arms
  ]


def test_an_arm_may_change_what_all_learn_with(tmp_path):
  d = DESIGN._replace(arms={'long': {'steps': 99}, 'plain': {}})
  _, learn = warm_arms.planned(d, str(tmp_path), seeds=2)
  assert [x.config.steps for x in learn] == [99, 99, 60, 60]


def test_a_design_has_seeds_of_its_own(tmp_path):
  d = DESIGN._replace(first=5)
  warm, learn = warm_arms.planned(d, str(tmp_path), seeds=2)
  assert [(x.name, x.config.seed) for x in warm] == [
    ('warm/seed=5', 5),
    ('warm/seed=6', 6),
  ]
  for x in learn:
    start = warm[x.config.seed - 5]
    assert x.config.init == start.workdir


def made(tmp_path, success):
  """Writes the metrics of runs: success[arm][seed] after training."""
  for arm, each in success.items():
    for i, value in enumerate(each):
      there = tmp_path / arm / f'seed={i}'
      there.mkdir(parents=True)
      rows = [
        {'step': 200, 'phase': 'eval', 'eval/success': 0.25},
        {'step': 201, 'phase': 'rl', 'rollout/summary': 0.2},
        {'step': 202, 'phase': 'rl', 'rollout/summary': 0.1},
        {'step': 202, 'phase': 'eval', 'eval/success': value},
      ]
      for row in rows[1:3]:
        row['rollout/tokens'] = 10.0
      (there / 'metrics.jsonl').write_text(
        ''.join(f'{json.dumps(row)}\n' for row in rows)
      )
  return warm_arms.report(DESIGN, str(tmp_path), seeds=3)


def test_a_report_compares_seed_by_seed(tmp_path):
  x = made(
    tmp_path,
    {
      'own': [0.9, 0.8, 0.7],
      'masked': [0.85, 0.75, 0.65],
      'shuffled': [0.2, 0.1, 0.3],
      'none': [0.1, 0.9, 0.2],
    },
  )
  assert x == json.loads(json.dumps(x))
  assert x['own']['tokens'] == [20.0] * 3
  d = warm_arms.gap(x, 'own', 'masked')
  assert (d.mean, d.sd) == pytest.approx((0.05, 0.0), abs=1e-9)
  text = warm_arms.table(DESIGN, x)
  assert (
    '| own | 25.0 [25.0, 25.0] | 80.0 [55.2, 104.8] | 90, 80, 70 | 15% |'
    in text
  )
  found = {claim: f'| {claim} | yes |' in text for claim in DESIGN.claims}
  assert list(found.values()) == [True, False, True, True]


GAME = warm_arms.Design(
  config='configs/spiral_magnet.py',
  arms={'own': {}, 'plain': {}},
  claims={'More is left by plain': ('plain', 'own')},
  sizes={},
  warm={},
  learn={},
  metric='eval/exploitability',
  compared=warm_arms.LEFT,
  held={'pay': 'eval/pay_against/uniform'},
  ranges={
    'A tenth is left': warm_arms.Range('own', 'left', below=0.1),
    'A fifth is left': warm_arms.Range('own', 'left', below=0.2),
    'It wins': warm_arms.Range('own', 'pay', above=0.0),
    'Plain wins': warm_arms.Range('plain', 'pay', above=0.0),
    'Plain wins half a chip': warm_arms.Range('plain', 'pay', 0.0, 0.5),
  },
)


def test_what_is_left_of_a_metric_is_compared_and_lies_in_ranges(tmp_path):
  """A mean inside a range is not enough: its interval has to lie there."""
  left = {'own': [0.05, 0.11, 0.08], 'plain': [0.3, 0.5, 0.4]}
  pays = {'own': [0.2, 0.1, 0.3], 'plain': [0.2, 0.3, 0.25]}
  for arm, shares in left.items():
    for i, share in enumerate(shares):
      there = tmp_path / arm / f'seed={i}'
      there.mkdir(parents=True)
      rows = [
        {'step': 0, 'phase': 'eval', 'eval/exploitability': 0.5},
        {'step': 1, 'phase': 'rl', 'rollout/tokens': 10.0},
        {'step': 1, 'phase': 'eval', 'eval/exploitability': 0.5 * share},
      ]
      rows[0]['eval/pay_against/uniform'] = -9.0
      rows[2]['eval/pay_against/uniform'] = pays[arm][i]
      (there / 'metrics.jsonl').write_text(
        ''.join(f'{json.dumps(row)}\n' for row in rows)
      )
  x = warm_arms.report(GAME, str(tmp_path), seeds=3)
  assert x == json.loads(json.dumps(x))
  assert x['own']['left'] == pytest.approx([0.05, 0.11, 0.08])
  assert x['own']['after'] == pytest.approx([0.025, 0.055, 0.04])
  assert x['own']['pay'] == [0.2, 0.1, 0.3]
  d = warm_arms.gap(x, 'plain', 'own', 'left')
  assert d.mean == pytest.approx(0.32)
  text = warm_arms.table(GAME, x)
  assert '| arm | before | after | left | each seed | pay |' in text
  assert (
    '| own | 0.500 [0.500, 0.500] | 0.040 [0.003, 0.077]'
    ' | 0.080 [0.005, 0.155] | 0.05, 0.11, 0.08 | 0.200 [-0.048, 0.448] |'
  ) in text
  assert '| plain - own: +0.320 [' in text
  found = {
    claim: f'| {claim} | yes |' in text
    for claim in (*GAME.claims, *GAME.ranges)
  }
  assert list(found.values()) == [True, False, True, False, True, True]
