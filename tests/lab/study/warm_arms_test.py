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
