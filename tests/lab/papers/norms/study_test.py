"""Norms study: its report and its page."""

import functools
import json
import pathlib

import numpy as np

from agentrl.lab.papers.norms import study

ROOT = pathlib.Path(__file__).parents[4]


@functools.cache
def report():
  return json.loads((ROOT / 'docs' / 'norms.json').read_text())


def test_a_report_is_whole(monkeypatch):
  monkeypatch.setattr(study, 'ROUNDS', 8)
  small = study.measure(seeds=2)
  assert small == json.loads(json.dumps(small))
  assert len(small['cells']) == len(study.SOCIETIES) * len(study.ARMS)
  assert study.UNVOTED in study.table(small)


def test_the_report_is_that_of_the_code():
  for where, arm in zip(study.SOCIETIES, study.ARMS, strict=False):
    run = study.run(*where, arm, study.FIRST_SEED + 7)
    cell = report()['cells'][study.cell(where, arm)]
    got = [cell[x][7] for x in run]
    np.testing.assert_allclose(got, list(run.values()), atol=6e-5)


def test_the_page_has_the_table_of_the_report():
  page = (ROOT / 'docs' / 'results' / 'norms.md').read_text()
  assert study.table(report()) in page
  for cell in report()['cells'].values():
    assert len(cell['lasted']) == report()['seeds'] == study.SEEDS
    assert np.all(np.isfinite([cell[x] for x in study.MEASURES]))
