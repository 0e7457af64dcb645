"""Compaction study: its runs, its claims, its page."""

import json
import pathlib

import pytest

from agentrl.lab.papers.compaction import study
from agentrl.lab.sweep import runs

DOCS = pathlib.Path(__file__).parents[4] / 'docs'


def test_arms_differ_in_what_becomes_of_summaries_alone(tmp_path):
  """Arms of a seed share the start; all arms and seeds share the rest."""
  warm, learn = study.planned(str(tmp_path), seeds=2)
  assert [x.name for x in warm] == ['warm/seed=0', 'warm/seed=1']
  assert len(learn) == 2 * len(study.ARMS)
  own = {'compaction.summary', 'seed', 'init'}
  rest = {
    json.dumps({k: v for k, v in x.changes.items() if k not in own})
    for x in learn
  }
  assert len(rest) == 1
  for x in learn:
    assert x.config.init == warm[x.config.seed].workdir
    assert x.config.steps == study.LEARN['steps']
  # The seeds of an arm are one process, and no two arms are.
  parts = runs.groups(learn, 2)
  assert [{x.config.compaction.summary for x in part} for part in parts] == [
    {arm} for arm in study.ARMS
  ]


def test_the_answer_has_no_room_beside_its_question(tmp_path):
  """A whole conversation is longer than any length that is drawn."""
  warm, _ = study.planned(str(tmp_path), seeds=2)
  c = warm[0].config
  env = c.env.settings
  least = 2 + (3 + env['size'] - 1) + env['fillers'] * (env['length'] + 1) + 3
  least += env['fillers'] + 2  # a message has at least one token
  assert least > c.compaction.threshold[1]
  assert not c.compaction.keep_task


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
  return study.report(str(tmp_path), seeds=3)


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
  d = study.gap(x, 'own', 'masked')
  assert (d.mean, d.sd) == pytest.approx((0.05, 0.0), abs=1e-9)
  text = study.table(x)
  assert (
    '| own | 25.0 [25.0, 25.0] | 80.0 [55.2, 104.8] | 90, 80, 70 | 15% |'
    in text
  )
  found = {claim: f'| {claim} | yes |' in text for claim in study.CLAIMS}
  assert list(found.values()) == [True, False, True, True]


def test_the_page_has_the_table_of_the_report():
  page = (DOCS / 'results' / 'compaction.md').read_text()
  assert study.table(study.written(str(DOCS / 'compaction.json'))) in page
