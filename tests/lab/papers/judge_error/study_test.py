"""Judge errors: what is measured falls with them, and is on the page."""

import json
import pathlib

import pytest

from agentrl.lab.papers.credit.size import CreditSize
from agentrl.lab.papers.judge_error import study as judge_error

ROOT = pathlib.Path(__file__).parent.parent.parent.parent.parent
REPORT = json.loads((ROOT / 'docs' / 'judge_error.json').read_text())


def test_the_page_has_the_table_of_the_report():
  page = (ROOT / 'docs' / 'JUDGES.md').read_text()
  assert judge_error.table(REPORT).strip() in page


def test_a_judge_that_is_right_is_best():
  for rows in REPORT['errors'].values():
    none, *_, most = rows.values()
    assert set(none) == set(judge_error.METHODS)
    for name in none:
      assert most[name]['rank'] <= none[name]['rank'] + 0.02


def test_the_picture_is_drawn(tmp_path):
  path = tmp_path / 'a.png'
  judge_error.picture(REPORT, path)
  assert path.read_bytes()[:4] == b'\x89PNG'


@pytest.mark.nightly
def test_verdicts_turned_round_cost_credit():
  """A coin in place of the judge tells nothing; one always wrong, less."""
  size = CreditSize()._replace(seeds=2, tasks=2)
  levels = {'flip': (0.0, 0.5, 1.0)}
  report = judge_error.measure(size, ['vpr_turn'], levels)
  right, coin, wrong = (
    x['vpr_turn']['rank'] for x in report['errors']['flip'].values()
  )
  assert right > 0.3
  assert abs(coin) < right / 2
  assert wrong < right
